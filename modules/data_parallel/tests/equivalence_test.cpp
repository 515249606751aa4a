// SPDX-License-Identifier: Apache-2.0
// n ranks x batch b = 1 rank x batch n b, after 20 steps, in float64. Every rank also trains the serial reference, with plain LibTorch on the
// whole batch, and compares each parameter: |ours - reference| <= 1e-12 |reference| in the 2-norm.
//
// Tolerance: the two differ in the order of summation. A step's relative difference is a few times 1.1e-16 times the square root of the terms
// (at most 96 samples), about 1e-15; Adam divides by sqrt(v), which keeps relative differences; 20 steps of a smooth network make at most 1e-13.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <numeric>
#include <tw/data_parallel.hpp>

namespace equivalence_test {

using tw::testing::device;
using tw::testing::world;

torch::nn::Sequential make_net() {
  torch::manual_seed(5);
  torch::nn::Sequential net(torch::nn::Conv2d(1, 4, 3), torch::nn::Tanh(), torch::nn::Flatten(), torch::nn::Linear(4 * 6 * 6, 20), torch::nn::Tanh(),
                            torch::nn::Linear(20, 3));
  net->to(torch::kDouble);
  tw::testing::place_module(net);
  return net;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name, const torch::nn::Sequential& net) {
  if (name == "adam") return std::make_unique<torch::optim::Adam>(net->parameters(), 1e-3);
  return std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
}

struct Samples {
  at::Tensor inputs;
  at::Tensor targets;
  Samples slice(int64_t begin, int64_t size) const { return {inputs.narrow(0, begin, size), targets.narrow(0, begin, size)}; }
};

Samples make_samples(int64_t step, int64_t size) {
  torch::manual_seed(static_cast<uint64_t>(1000 + step));
  return {torch::randn({size, 1, 8, 8}, torch::kDouble).to(device()), torch::randint(3, {size}, torch::kLong).to(device())};
}

at::Tensor loss_of(torch::nn::Sequential& net, const Samples& samples, tw::Reduction reduction) {
  const auto how = reduction == tw::Reduction::sum ? at::Reduction::Sum : at::Reduction::Mean;
  return torch::cross_entropy_loss(net->forward(samples.inputs), samples.targets, {}, how);
}

/// Trains both. @param counts samples of each rank in a step.
void expect_equivalence(const std::string& optimizer_name, tw::Reduction reduction, const std::vector<int64_t>& counts, bool overlap, bool to_none) {
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const auto rank = static_cast<size_t>(static_cast<int>(world().rank()));
  const int64_t begin = std::accumulate(counts.begin(), counts.begin() + static_cast<int64_t>(rank), int64_t{0});

  auto reference = make_net();
  auto ours = make_net();
  const auto reference_optimizer = make_optimizer(optimizer_name, reference);
  const auto our_optimizer = make_optimizer(optimizer_name, ours);
  tw::DataParallel parallel(world(), *ours,
                            {.reduction = reduction, .buckets = {.first_bucket_bytes = 1024, .bucket_bytes = 8192}, .overlap = overlap});
  parallel.set_samples(counts[rank]);

  for (int64_t step = 0; step < 20; ++step) {
    const Samples all = make_samples(step, total);
    reference_optimizer->zero_grad();
    loss_of(reference, all, reduction).backward();
    reference_optimizer->step();

    our_optimizer->zero_grad(to_none);
    loss_of(ours, all.slice(begin, counts[rank]), reduction).backward();
    our_optimizer->step();
  }
  const auto expected = reference->named_parameters();
  for (const auto& parameter : ours->named_parameters()) {
    const double difference = (parameter.value() - expected[parameter.key()]).norm().item<double>() / expected[parameter.key()].norm().item<double>();
    EXPECT_LE(difference, 1e-12) << optimizer_name << " " << parameter.key() << " with " << counts.size() << " ranks";
  }
}

void for_variants(tw::Reduction reduction, const std::vector<int64_t>& counts) {
  for (const std::string optimizer : {"sgd", "adam"}) {
    for (const bool overlap : {false, true}) {
      for (const bool to_none : {true, false}) expect_equivalence(optimizer, reduction, counts, overlap, to_none);
    }
  }
}

TEST(Equivalence, MeanWithEvenBatches) { for_variants(tw::Reduction::mean, std::vector<int64_t>(static_cast<size_t>(world().size()), 12)); }

TEST(Equivalence, SampleWeightedWithUnevenBatches) {
  std::vector<int64_t> counts;
  for (int rank = 0; rank < world().size(); ++rank) counts.push_back(3 + 7 * rank);
  for_variants(tw::Reduction::sample_weighted, counts);
}

TEST(Equivalence, SampleWeightedWithAnEmptyRank) {
  std::vector<int64_t> counts(static_cast<size_t>(world().size()), 9);
  if (counts.size() > 1) counts[1] = 0;
  for_variants(tw::Reduction::sample_weighted, counts);
}

TEST(Equivalence, SumWithUnevenBatches) {
  std::vector<int64_t> counts;
  for (int rank = 0; rank < world().size(); ++rank) counts.push_back(2 + 3 * rank);
  expect_equivalence("adam", tw::Reduction::sum, counts, false, true);  // a sum's gradient is too large for plain SGD
}

}  // namespace equivalence_test
