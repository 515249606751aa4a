// SPDX-License-Identifier: Apache-2.0
// Networks and samples for tests of equivalence, in float64, and comparisons.
#pragma once
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <functional>
#include <string>
#include <tw/base/error.hpp>
#include <tw/gradients/reduction.hpp>
#include <vector>

namespace tw::testing {

using Net = torch::nn::Sequential;

inline Net make_net(uint64_t seed = 5) {
  torch::manual_seed(seed);
  Net net(torch::nn::Conv2d(1, 2, 3), torch::nn::Tanh(), torch::nn::Flatten(), torch::nn::Linear(2 * 4 * 4, 7), torch::nn::Tanh(),
          torch::nn::Linear(7, 3));
  net->to(torch::kDouble);
  place_module(net);
  return net;
}

/// Different values on every rank; rank 0 has make_net()'s.
inline Net make_net_of_rank() { return make_net(5 + static_cast<uint64_t>(static_cast<int>(world().rank()))); }

/// Empty until filled.
struct Samples {
  at::Tensor inputs = place(torch::empty({0, 1, 6, 6}, torch::kDouble));
  at::Tensor targets = place(torch::empty({0}, torch::kLong));
};

/// The batch of `rank` at `step`: 1 to 5 samples.
inline Samples batch_of(int rank, int64_t step) {
  torch::manual_seed(static_cast<uint64_t>(1000 * (rank + 1) + step));
  const int64_t size = 1 + (3 * rank + step) % 5;
  return {place(torch::randn({size, 1, 6, 6}, torch::kDouble)), place(torch::randint(3, {size}, torch::kLong))};
}

/// The samples of all ranks together at `step`, where rank r has batches[r] batches.
inline Samples union_of(const std::vector<int64_t>& batches, int64_t step) {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> targets;
  for (size_t rank = 0; rank < batches.size(); ++rank) {
    if (step >= batches[rank]) continue;
    const Samples samples = batch_of(static_cast<int>(rank), step);
    inputs.push_back(samples.inputs);
    targets.push_back(samples.targets);
  }
  return {torch::cat(inputs), torch::cat(targets)};
}

/// A sum over samples for Reduction::sum, otherwise a mean.
inline at::Tensor loss_of(const Net& net, const Samples& samples, Reduction reduction) {
  const auto how = reduction == Reduction::sum ? at::Reduction::Sum : at::Reduction::Mean;
  return torch::cross_entropy_loss(Net(net)->forward(samples.inputs), samples.targets, {}, how);
}

/// |ours - expected| <= 1e-12 |expected| in the 2-norm of each parameter.
inline void expect_near(const Net& ours, const Net& expected, const std::string& what) {
  const auto reference = expected->named_parameters();
  for (const auto& parameter : ours->named_parameters()) {
    const at::Tensor& other = reference[parameter.key()];
    EXPECT_LE((parameter.value() - other).norm().item<double>(), 1e-12 * other.norm().item<double>()) << what << ", " << parameter.key();
  }
}

/// `call` must throw a ContractError whose message contains `part`.
inline void expect_error(const std::function<void()>& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "no exception that says '" << part << "'";
  } catch (const ContractError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "'" << error.what() << "' does not say '" << part << "'";
  }
}

}  // namespace tw::testing
