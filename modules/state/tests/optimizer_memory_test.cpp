// SPDX-License-Identifier: Apache-2.0
// The predicted memory of optimizers equals the memory that LibTorch's allocator reports.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/base/contract.hpp>
#include <tw/state/optimizer_memory.hpp>
#include <tw/tensor/held_memory.hpp>

namespace optimizer_memory_test {

constexpr int64_t numel = 1 << 16;  // its scalars, such as counters, are small against it

template <class Optimizer, class Options>
void expect_predicted(const std::string& what, const Options& options) {
  const std::vector<at::Tensor> parameters{torch::ones(numel, torch::requires_grad()), torch::ones(numel / 2, torch::requires_grad()),
                                           torch::ones(numel)};  // the last one is frozen
  for (const at::Tensor& each : parameters) {
    if (each.requires_grad()) each.mutable_grad() = torch::ones_like(each);
  }
  const tw::HeldMemory held;
  Optimizer optimizer(parameters, options);
  const tw::OptimizerMemory predicted = tw::optimizer_memory(optimizer);
  optimizer.step();
  const int64_t state = held.now();
  optimizer.step();
  const double allowed = 1000;
  EXPECT_NEAR(static_cast<double>(predicted.state_bytes), static_cast<double>(state), allowed) << what;
  EXPECT_NEAR(static_cast<double>(predicted.temporary_bytes), static_cast<double>(held.most() - state), allowed) << what;
}

TEST(OptimizerMemory, IsAsPredicted) {
  using namespace torch::optim;
  for (const double decay : {0.0, 0.1}) {
    expect_predicted<SGD>("SGD", SGDOptions(0.1).weight_decay(decay));
    expect_predicted<SGD>("SGD with momentum", SGDOptions(0.1).weight_decay(decay).momentum(0.9));
    expect_predicted<SGD>("SGD, Nesterov", SGDOptions(0.1).weight_decay(decay).momentum(0.9).nesterov(true));
    expect_predicted<Adagrad>("Adagrad", AdagradOptions(0.1).weight_decay(decay));
    for (const bool more : {false, true}) {
      expect_predicted<Adam>("Adam", AdamOptions(0.1).weight_decay(decay).amsgrad(more));
      expect_predicted<AdamW>("AdamW", AdamWOptions(0.1).weight_decay(decay).amsgrad(more));
      expect_predicted<RMSprop>("RMSprop", RMSpropOptions(0.1).weight_decay(decay).centered(more));
      expect_predicted<RMSprop>("RMSprop with momentum", RMSpropOptions(0.1).weight_decay(decay).centered(more).momentum(0.9));
    }
  }
}

TEST(OptimizerMemory, OfOthersIsNotKnown) {
  const torch::optim::LBFGS lbfgs({torch::ones(1, torch::requires_grad())});
  EXPECT_THROW((void)tw::optimizer_memory(lbfgs), tw::ContractError);
}

}  // namespace optimizer_memory_test
