// SPDX-License-Identifier: Apache-2.0
// SyncBatchNorm on p ranks against torch::nn::BatchNorm on one process with the whole batch, which every rank also computes: in float64, each tensor
// to 1e-12 in the 2-norm, after 20 steps.
//
// Tolerance: as in equivalence_test.cpp, the two differ only in the order of summation. A batch normalisation divides by deviations of about 1,
// which keeps relative differences. Layers before one have no bias: its gradient would be 0, and Adam would amplify its rounding errors.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <numeric>
#include <tw/data_parallel.hpp>
#include <tw/data_parallel/sync_batch_norm.hpp>

namespace sync_batch_norm_test {

using torch::nn::BatchNormOptions;
using tw::Reduction;
using tw::testing::place;
using tw::testing::world;

constexpr double tolerance = 1e-12;
constexpr auto reductions = {Reduction::mean, Reduction::sum, Reduction::sample_weighted};

void expect_near(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  EXPECT_LE((found - expected).norm().item<double>(), tolerance * expected.norm().item<double>()) << what;
}

/// The number of samples of each rank, and this rank's range.
struct Shares {
  explicit Shares(std::vector<int64_t> of_ranks) : counts(std::move(of_ranks)) {}
  std::vector<int64_t> counts;

  int64_t total() const { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }
  int64_t mine() const { return counts[static_cast<size_t>(int{world().rank()})]; }
  at::Tensor slice(const at::Tensor& all) const {
    return all.narrow(0, std::accumulate(counts.begin(), counts.begin() + int{world().rank()}, int64_t{0}), mine());
  }
};

Shares even() { return Shares(std::vector<int64_t>(static_cast<size_t>(world().size()), 4)); }

Shares uneven() {
  std::vector<int64_t> counts;
  for (int rank = 0; rank < world().size(); ++rank) counts.push_back(6 + 3 * rank);
  return Shares(counts);
}

/// Rank 1 has no samples; with four ranks, rank 0 has none either.
Shares with_empty_ranks() {
  std::vector<int64_t> counts = uneven().counts;
  if (counts.size() > 1) counts[1] = 0;
  if (counts.size() > 3) counts[0] = 0;
  return Shares(counts);
}

/// A Sequential that can be nested in another.
struct NestedImpl : torch::nn::SequentialImpl {
  using torch::nn::SequentialImpl::SequentialImpl;
  at::Tensor forward(const at::Tensor& x) { return torch::nn::SequentialImpl::forward(x); }
};
TORCH_MODULE(Nested);

torch::nn::Sequential make_net() {
  torch::manual_seed(5);
  const Nested inner(torch::nn::Linear(torch::nn::LinearOptions(4 * 6 * 6, 10).bias(false)),
                     torch::nn::BatchNorm1d(BatchNormOptions(10).momentum(std::nullopt)));
  torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).bias(false)), torch::nn::BatchNorm2d(4), torch::nn::Tanh(),
                            torch::nn::Flatten(), inner, torch::nn::Tanh(), torch::nn::Linear(10, 3));
  net->to(torch::kDouble);
  return net;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(bool adam, const torch::nn::Sequential& net) {
  if (adam) return std::make_unique<torch::optim::Adam>(net->parameters(), 1e-3);
  return std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9));
}

at::Tensor loss_of(torch::nn::Sequential& net, const at::Tensor& inputs, const at::Tensor& classes, Reduction reduction) {
  return torch::cross_entropy_loss(net->forward(inputs), classes, {}, reduction == Reduction::sum ? at::Reduction::Sum : at::Reduction::Mean);
}

void expect_equivalence(Reduction reduction, const Shares& shares) {
  for (const bool adam : {false, true}) {
    auto reference = make_net();
    auto ours = make_net();
    const auto our_optimizer = make_optimizer(adam, ours);  // before the layers are replaced: parameters remain
    const auto reference_optimizer = make_optimizer(adam, reference);
    EXPECT_EQ(tw::synchronize_batch_norms(*ours, world(), reduction), 2);
    tw::testing::place_module(reference);
    tw::testing::place_module(ours);
    tw::DataParallel parallel(world(), *ours, {.reduction = reduction, .overlap = adam});
    parallel.set_samples(shares.mine());
    for (int64_t step = 0; step < 20; ++step) {
      torch::manual_seed(static_cast<uint64_t>(1000 + step));
      const at::Tensor inputs = place(torch::randn({shares.total(), 1, 8, 8}, torch::kDouble) + 3);
      const at::Tensor classes = place(torch::randint(3, {shares.total()}, torch::kLong));
      reference_optimizer->zero_grad();
      loss_of(reference, inputs, classes, reduction).backward();
      reference_optimizer->step();
      our_optimizer->zero_grad();
      loss_of(ours, shares.slice(inputs), shares.slice(classes), reduction).backward();
      our_optimizer->step();
    }
    const auto expected = reference->named_parameters();
    EXPECT_EQ(ours->named_parameters().keys(), expected.keys());
    for (const auto& parameter : ours->named_parameters()) expect_near(parameter.value(), expected[parameter.key()], parameter.key());
    const auto expected_buffers = reference->named_buffers();
    EXPECT_EQ(ours->named_buffers().keys(), expected_buffers.keys());
    for (const auto& buffer : ours->named_buffers()) {
      expect_near(buffer.value().to(torch::kDouble), expected_buffers[buffer.key()].to(torch::kDouble), buffer.key());
      EXPECT_TRUE(tw::compare_replicas(world(), buffer.value()).identical) << buffer.key();
    }
    ours->eval();
    reference->eval();
    const at::Tensor inputs = place(torch::randn({3, 1, 8, 8}, torch::kDouble));
    expect_near(ours->forward(inputs), reference->forward(inputs), "evaluation");
  }
}

TEST(SyncBatchNormTraining, MeanWithEvenBatches) { expect_equivalence(Reduction::mean, even()); }
TEST(SyncBatchNormTraining, SumWithUnevenBatches) { expect_equivalence(Reduction::sum, uneven()); }
TEST(SyncBatchNormTraining, SampleWeightedWithUnevenBatches) { expect_equivalence(Reduction::sample_weighted, uneven()); }
TEST(SyncBatchNormTraining, SampleWeightedWithEmptyRanks) { expect_equivalence(Reduction::sample_weighted, with_empty_ranks()); }

/// w_r of this rank's loss.
double weight_of(Reduction reduction, const Shares& shares) {
  switch (reduction) {
    case Reduction::sum: return 1;
    case Reduction::mean: return 1.0 / world().size();
    case Reduction::sample_weighted: return static_cast<double>(shares.mine()) / static_cast<double>(shares.total());
  }
  return 0;
}

// The layer alone, with an arbitrary loss of the samples and every option: checks the output, and the gradients that the class documents. With uneven
// shares, a mean of ranks' means is not the mean of the samples; gradients are still those of what DataParallel makes of the losses.
void expect_layer(const BatchNormOptions& options, std::vector<int64_t> shape, Reduction reduction, const Shares& shares) {
  torch::manual_seed(7);
  shape[0] = shares.total();
  const at::Tensor all = place(torch::randn(shape, torch::kDouble) * 2 + 1);
  const at::Tensor cotangents = place(torch::randn(shape, torch::kDouble));
  torch::nn::BatchNorm2d reference(options);
  if (options.affine()) {
    torch::nn::init::normal_(reference->weight);
    torch::nn::init::normal_(reference->bias);
  }
  reference->to(torch::kDouble);
  tw::testing::place_module(reference);
  tw::SyncBatchNorm ours(world(), options, reduction);
  ours->to(torch::kDouble);
  tw::testing::place_module(ours);
  for (const auto& parameter : ours->named_parameters()) parameter.value().detach().copy_(reference->named_parameters()[parameter.key()]);

  // In one process: L = sum_r w_r L_r, with L_r = <c, y> over the samples of r. Each rank fills in its weight, and all-reduces it.
  const at::Tensor weights = place(torch::zeros(shares.total(), torch::kDouble));
  shares.slice(weights).fill_(weight_of(reduction, shares));
  tw::allreduce(world(), weights, tw::ReduceOp::sum);
  std::vector<int64_t> column(shape.size(), 1);
  column[0] = shares.total();
  const at::Tensor reference_input = all.clone().requires_grad_();
  const at::Tensor flat = reference_input.dim() == 4 ? reference_input : reference_input.reshape({shape[0], shape[1], 1, -1});
  const at::Tensor expected = reference(flat).view(shape);
  (expected * cotangents * weights.view(column)).sum().backward();

  const at::Tensor input = shares.slice(all).clone().requires_grad_();
  const at::Tensor output = ours(input);
  expect_near(output, shares.slice(expected), "output");
  (output * shares.slice(cotangents)).sum().backward();
  const double weight = weight_of(reduction, shares);
  expect_near(input.grad() * weight, shares.slice(reference_input.grad()), "the input's gradient");
  for (const auto& parameter : ours->named_parameters()) {
    const at::Tensor gradient = parameter.value().grad() * weight;
    tw::allreduce(world(), gradient, tw::ReduceOp::sum);
    expect_near(gradient, reference->named_parameters()[parameter.key()].grad(), parameter.key() + "'s gradient");
  }
  EXPECT_EQ(ours->named_buffers().keys(), reference->named_buffers().keys());
  if (!options.track_running_stats()) return;
  expect_near(ours->running_mean, reference->running_mean, "running_mean");
  expect_near(ours->running_var, reference->running_var, "running_var");
  EXPECT_EQ(ours->num_batches_tracked.item<int64_t>(), 1);
}

TEST(SyncBatchNorm, HasTheGradientsOfTheWholeBatch) {
  for (const auto reduction : reductions) {
    for (const Shares& shares : {even(), uneven(), with_empty_ranks()}) {
      for (const std::vector<int64_t>& shape : {std::vector<int64_t>{0, 3, 4, 2}, {0, 3}, {0, 3, 5}, {0, 3, 2, 2, 2}}) {
        for (const bool affine : {true, false}) {
          for (const bool track : {true, false}) {
            const auto momentum = affine ? std::optional<double>(0.3) : std::nullopt;
            expect_layer(BatchNormOptions(3).affine(affine).track_running_stats(track).momentum(momentum).eps(1e-3), shape, reduction, shares);
          }
        }
      }
    }
  }
}

// Sums of squares would lose all precision: 1e8 squared has no digits left for a variance of 1. The reference is computed exactly from x - 1e8. Each
// rank's mean, about 1e8, rounds by 1e-8, and so do deviations from it.
TEST(SyncBatchNorm, KeepsTheVarianceOfNumbersFarFromZero) {
  torch::manual_seed(8);
  const Shares shares = uneven();
  const at::Tensor deviations = torch::randint(-4, 5, {shares.total(), 2, 3}, torch::kDouble);
  tw::SyncBatchNorm norm(world(), BatchNormOptions(2).momentum(1.0), Reduction::mean);
  norm->to(torch::kDouble);
  (void)norm(shares.slice(deviations + 1e8));
  const at::Tensor expected = deviations.transpose(0, 1).reshape({2, -1}).var(1, true);
  EXPECT_LE((norm->running_var - expected).abs().max().item<double>(), 1e-6);
}

// Channels last, gradients that are one expanded number, and an input without gradient, so that only parameters have one.
TEST(SyncBatchNorm, TakesAnyStridesAndAnInputWithoutGradient) {
  torch::manual_seed(10);
  const Shares shares = uneven();
  const at::Tensor all = place(torch::randn({shares.total(), 4, 5, 3}, torch::kDouble)).permute({0, 3, 1, 2});
  torch::nn::BatchNorm2d reference(3);
  reference->to(torch::kDouble);
  tw::testing::place_module(reference);
  tw::SyncBatchNorm ours(world(), 3, Reduction::sum);
  ours->to(torch::kDouble);
  tw::testing::place_module(ours);
  const at::Tensor factors = place(torch::randn({1, 3, 1, 1}, torch::kDouble));
  (reference(all) * factors).sum().backward();
  (ours(shares.slice(all)) * factors).sum().backward();
  tw::allreduce(world(), ours->bias.grad(), tw::ReduceOp::sum);
  expect_near(ours->bias.grad(), reference->bias.grad(), "the bias's gradient");
  expect_near(ours->running_var, reference->running_var, "running_var");

  const at::Tensor reference_input = all.detach().requires_grad_();
  reference(reference_input).select(1, 0).pow(3).sum().backward();
  const at::Tensor input = shares.slice(all).detach().requires_grad_();
  ours(input).select(1, 0).pow(3).sum().backward();
  expect_near(input.grad(), shares.slice(reference_input.grad()), "the input's gradient");
}

TEST(SyncBatchNorm, WorksInFloat32) {
  torch::manual_seed(9);
  const Shares shares = uneven();
  const at::Tensor all = torch::randn({shares.total(), 3, 4, 4});
  torch::nn::BatchNorm2d reference(3);
  tw::SyncBatchNorm ours(world(), 3, Reduction::mean);
  const at::Tensor output = ours(shares.slice(all));
  EXPECT_EQ(output.scalar_type(), torch::kFloat);
  // A few roundings of 6e-8 of numbers up to 4.
  EXPECT_LE((output - shares.slice(reference(all))).abs().max().item<double>(), 4e-6);
  EXPECT_LE((ours->running_var - reference->running_var).abs().max().item<double>(), 1e-6);
}

TEST(SyncBatchNorm, ExchangesStateWithBatchNormByName) {
  torch::nn::BatchNorm2d plain(3);
  plain->train();
  (void)plain(torch::randn({4, 3, 2, 2}));
  std::stringstream file;
  torch::serialize::OutputArchive saved;
  plain->save(saved);
  saved.save_to(file);
  torch::serialize::InputArchive loaded;
  loaded.load_from(file);
  tw::SyncBatchNorm ours(world(), 3, Reduction::mean);
  ours->load(loaded);
  EXPECT_TRUE(ours->running_mean.equal(plain->running_mean));
  EXPECT_EQ(ours->num_batches_tracked.item<int64_t>(), 1);
  const auto clone = std::dynamic_pointer_cast<tw::SyncBatchNormImpl>(ours->clone());
  clone->eval();
  plain->eval();
  const at::Tensor input = torch::randn({2, 3, 2, 2});
  EXPECT_TRUE(clone->forward(input).equal(plain(input)));
}

// A torch::nn::Module that holds a batch normalisation in a member.
struct Holder : torch::nn::Module {
  Holder() : norm(register_module("norm", torch::nn::BatchNorm1d(2))) {}
  at::Tensor forward(const at::Tensor& x) { return norm(x); }
  torch::nn::BatchNorm1d norm;
};

template <class Call>
void expect_refusal(const Call& call, const std::string& message) {
  try {
    call();
    ADD_FAILURE() << "no exception";
  } catch (const tw::ContractError& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(SynchronizeBatchNorms, KeepsParametersBuffersAndMode) {
  torch::nn::Sequential net(torch::nn::Linear(2, 2), torch::nn::BatchNorm1d(BatchNormOptions(2).eps(0.5)));
  net->to(torch::kDouble);
  net->eval();
  const auto parameters = net->parameters();
  const auto buffers = net->buffers();
  EXPECT_EQ(tw::synchronize_batch_norms(*net, world(), Reduction::sum), 1);
  EXPECT_EQ(tw::synchronize_batch_norms(*net, world(), Reduction::sum), 0);
  for (size_t i = 0; i < parameters.size(); ++i) EXPECT_TRUE(net->parameters()[i].is_same(parameters[i]));
  for (size_t i = 0; i < buffers.size(); ++i) EXPECT_EQ(net->buffers()[i].data_ptr(), buffers[i].data_ptr());
  const auto norm = net->ptr<tw::SyncBatchNormImpl>(1);
  EXPECT_EQ(norm->options.eps(), 0.5);
  EXPECT_FALSE(norm->is_training());
  EXPECT_EQ(net->forward(torch::ones({3, 2}, torch::kDouble)).sizes(), (std::vector<int64_t>{3, 2}));
}

TEST(SynchronizeBatchNorms, RefusesWhatItCannotReplace) {
  torch::nn::Sequential net(torch::nn::BatchNorm1d(2), Nested(Holder()));
  expect_refusal([&] { tw::synchronize_batch_norms(*net, world(), Reduction::mean); }, "1.0.norm cannot be replaced");
  EXPECT_NE(net->children()[0]->as<torch::nn::BatchNorm1dImpl>(), nullptr);
}

TEST(SyncBatchNorm, RefusesWhatDoesNotFit) {
  tw::SyncBatchNorm norm(world(), 3, Reduction::mean);
  expect_refusal([&] { norm(torch::ones({2, 4})); }, "SyncBatchNorm takes [N, 3, ...], got [2, 4]");
  expect_refusal([&] { norm(torch::ones({3})); }, "SyncBatchNorm takes [N, 3, ...], got [3]");
  expect_refusal([&] { norm(torch::ones({2, 3}, torch::kLong)); }, "SyncBatchNorm takes float32 or float64, got int64");
  expect_refusal([&] { norm(torch::ones({world().rank() == 0 ? 1 : 0, 3})); }, "at least 2 values per channel over all ranks");
  const at::Tensor input = torch::randn({4, 3}).requires_grad_();
  expect_refusal([&] { torch::autograd::grad({norm(input).pow(2).sum()}, {input}, {}, true, true); }, "cannot be differentiated twice");
  world().barrier();
}

// Ranks without rows, or with rows that do not count, gather the same units as the others, and keep the statistics of all.
TEST(SyncBatchNorm, GoesWithFullyShardedWhereRanksHaveNoRows) {
  const auto make = [] {
    torch::manual_seed(4);
    torch::nn::Sequential net(torch::nn::Linear(torch::nn::LinearOptions(3, 5).bias(false)), torch::nn::BatchNorm1d(5), torch::nn::Tanh(),
                              torch::nn::Linear(5, 2));
    net->to(torch::kDouble);
    return net;
  };
  for (const bool idle : {false, true}) {
    const Shares shares = with_empty_ranks();
    auto reference = make();
    auto ours = make();
    tw::synchronize_batch_norms(*ours, world(), Reduction::sum);
    for (const auto& net : {reference, ours}) tw::testing::place_module(net);
    torch::optim::SGD reference_optimizer(reference->parameters(), 0.1);
    tw::FullySharded sharded(world(), *ours, {.reduction = Reduction::sum, .unit_bytes = 1});
    torch::optim::SGD optimizer(sharded.slices(), 0.1);
    for (uint64_t step = 0; step < 3; ++step) {
      torch::manual_seed(step);
      const at::Tensor inputs = place(torch::randn({shares.total(), 3}, torch::kDouble) + 2);
      reference_optimizer.zero_grad();
      reference->forward(inputs).square().sum().backward();
      reference_optimizer.step();
      optimizer.zero_grad();
      if (idle && shares.mine() == 0) {
        const tw::IdlePass pass({});
        (ours->forward(place(torch::full({2, 3}, 100.0, torch::kDouble))).square().sum() * 0).backward();
      } else {
        ours->forward(shares.slice(inputs)).square().sum().backward();
      }
      optimizer.step();
    }
    const at::NoGradGuard no_grad;
    for (const auto& each : ours->named_parameters()) expect_near(each.value().clone(), reference->named_parameters()[each.key()], each.key());
    for (const auto& each : ours->named_buffers())
      expect_near(each.value().to(torch::kDouble), reference->named_buffers()[each.key()].to(torch::kDouble), each.key());
  }
}

TEST(SyncBatchNorm, IsMadeForTheReductionOfItsGradients) {
  tw::SyncBatchNorm norm(world(), 3, Reduction::sample_weighted);
  tw::DataParallel parallel(world(), {{"weight", norm->weight}, {"bias", norm->bias}}, {.reduction = Reduction::sum});
  expect_refusal([&] { norm(torch::ones({2, 3})); }, "made for Reduction::sample_weighted, but its weight's gradient is reduced by Reduction::sum");
  tw::SyncBatchNorm other(world(), 3, Reduction::sum);
  tw::DataParallel mean(world(), *other, {.reduction = Reduction::mean});
  other(torch::ones({2, 3}));  // whose weights are the same on all ranks, too
  expect_refusal([&] { tw::SyncBatchNorm(world(), 3, Reduction()); }, "the reduction must be chosen");

  const torch::nn::Sequential net(torch::nn::Linear(2, 3), tw::SyncBatchNorm(world(), BatchNormOptions(3).affine(false), Reduction::mean));
  const std::string expected = "SyncBatchNorm 1 was made for Reduction::mean, but the gradients are reduced by Reduction::sample_weighted";
  torch::optim::SGD sgd(net->parameters(), 0.1);
  expect_refusal([&] { tw::DataParallel(world(), *net, {.reduction = Reduction::sample_weighted}); }, expected);
  expect_refusal([&] { tw::DistributedOptimizer(world(), sgd, *net, {.reduction = Reduction::sample_weighted}); }, expected);
  expect_refusal([&] { tw::FullySharded(world(), *net, {.reduction = Reduction::sample_weighted}); }, expected);
}

// Buffers changed by an idle pass are restored, except those that all ranks computed together.
TEST(IdlePass, LeavesNoTrace) {
  torch::nn::BatchNorm1d plain(2);
  tw::SyncBatchNorm synchronised(world(), 2, Reduction::mean);
  const std::vector<tw::NamedTensor> buffers{{"plain", plain->running_mean}, {"synchronised", synchronised->running_mean}};
  const at::Tensor x = torch::tensor({{1.0, 2.0}, {3.0, 5.0}}, torch::kFloat);
  const bool idle = world().rank() == world().size() - 1 && world().size() > 1;
  {
    std::optional<tw::IdlePass> pass;
    if (idle) pass.emplace(buffers);
    EXPECT_EQ(tw::IdlePass::in_progress(), idle);
    plain(idle ? x * 100 : x);
    synchronised(idle ? x * 100 : x);
  }
  EXPECT_FALSE(tw::IdlePass::in_progress());
  const at::Tensor mean = torch::tensor({0.2, 0.35}, torch::kFloat);
  EXPECT_TRUE(plain->running_mean.allclose(idle ? torch::zeros({2}) : mean));
  EXPECT_TRUE(synchronised->running_mean.allclose(mean));
}

}  // namespace sync_batch_norm_test
