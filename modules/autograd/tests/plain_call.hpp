// SPDX-License-Identifier: Apache-2.0
// Runs the same pass with plain and with recomputed calls.
#pragma once
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <tw/autograd/recomputed.hpp>
#include <utility>
#include <vector>

namespace tw::testing {

struct Plain {
  template <class Function, class... Inputs>
  auto operator()(Function function, const Inputs&... inputs) const {
    return std::invoke(function, inputs...);
  }
};

struct Recomputed {
  template <class Function, class... Inputs>
  auto operator()(const Function& function, const Inputs&... inputs) const {
    return recomputed(function, inputs...);
  }
};

/// The output, the gradients of `inputs` and of `trained`, and the generator's final position.
template <class Call, class Pass>
std::vector<at::Tensor> results_of(const Call& call, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& trained,
                                   const Pass& pass) {
  torch::manual_seed(3);
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& each : inputs) leaves.push_back(each.detach().clone().requires_grad_());
  for (const at::Tensor& each : trained) each.mutable_grad() = at::Tensor();
  const at::Tensor output = pass(call, leaves);
  (output * torch::linspace(-1, 2, output.numel(), output.options().requires_grad(false)).view(output.sizes())).sum().backward();
  std::vector<at::Tensor> results{output.detach()};
  for (const at::Tensor& each : leaves) results.push_back(each.grad());
  for (const at::Tensor& each : trained) results.push_back(each.grad());
  results.push_back(torch::rand({3}));
  return results;
}

/// Expects bitwise equal results from both.
template <class Pass>
void same_passes(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& trained, const Pass& pass) {
  const std::vector<at::Tensor> expected = results_of(Plain(), inputs, trained, pass);
  const std::vector<at::Tensor> found = results_of(Recomputed(), inputs, trained, pass);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(found[i].defined(), expected[i].defined()) << "result " << i;
    if (!found[i].defined()) continue;
    EXPECT_TRUE(found[i].equal(expected[i])) << "result " << i << "\n" << found[i] - expected[i];
  }
}

}  // namespace tw::testing
