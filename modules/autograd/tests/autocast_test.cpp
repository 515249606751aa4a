// SPDX-License-Identifier: Apache-2.0
// LibTorch's autocast, set per scope.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/autograd/autocast.hpp>
#include <tw/autograd/compute_type.hpp>
#include <tw/base/contract.hpp>

namespace autocast_test {

using tw::AutocastScope;
using tw::AutocastState;

AutocastState on_cpu(at::ScalarType type) { return AutocastState::here().on(at::kCPU, type); }

TEST(Autocast, HoldsWithinItsScope) {
  const at::Tensor x = torch::ones({2, 2});
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    {
      const AutocastScope scope(on_cpu(type));
      EXPECT_EQ(x.mm(x).scalar_type(), type);
      EXPECT_TRUE(AutocastState::here().is_on());
      {
        const AutocastScope outside(AutocastState::here().off());
        EXPECT_EQ(x.mm(x).scalar_type(), at::kFloat);
      }
      EXPECT_EQ(x.mm(x).scalar_type(), type);
    }
    EXPECT_EQ(x.mm(x).scalar_type(), at::kFloat);
    EXPECT_FALSE(AutocastState::here().is_on());
  }
}

TEST(ComputeScope, SetsWhatItsTypeNeeds) {
  const at::Tensor x = torch::ones({2, 2});
  const auto computed_in = [&](tw::ComputeType type) {
    const tw::ComputeScope scope(type, at::kCPU);
    return x.mm(x).scalar_type();
  };
  EXPECT_EQ(computed_in(tw::ComputeType::bfloat16), at::kBFloat16);
  EXPECT_EQ(computed_in(tw::ComputeType::float16), at::kHalf);
  EXPECT_EQ(computed_in(tw::ComputeType::float32), at::kFloat);
  EXPECT_FALSE(AutocastState::here().is_on());
  EXPECT_EQ(tw::in_float32(x.to(at::kHalf)).scalar_type(), at::kFloat);
  EXPECT_EQ(tw::in_float32(x.to(at::kDouble)).scalar_type(), at::kDouble);
}

TEST(Autocast, IsComparedAsAValue) {
  const AutocastState none = AutocastState::here();
  EXPECT_EQ(none, AutocastState::here());
  EXPECT_NE(none, on_cpu(at::kBFloat16));
  EXPECT_NE(on_cpu(at::kHalf), on_cpu(at::kBFloat16));
}

// A cast of a parameter is cached within one scope, but neither in a later one nor in LibTorch's own outer scope.
TEST(Autocast, MissesNoChangeOfAParameter) {
  const at::Tensor x = torch::ones({1, 1});
  const at::Tensor w = torch::full({1, 1}, 2.0).requires_grad_();
  const auto product = [&] {
    const AutocastScope scope(on_cpu(at::kBFloat16));
    return x.mm(w).item<double>();
  };
  at::autocast::increment_nesting();  // as LibTorch's own scopes do, which keep casts until the outermost ends
  EXPECT_EQ(product(), 2);
  w.detach().fill_(4);
  EXPECT_EQ(product(), 4);
  at::autocast::decrement_nesting();
}

// Code that computes something twice in one scope, first without gradients, relies on this; see LibTorch's issue 158232.
TEST(Autocast, GivesGradientsAfterAPassWithout) {
  const at::Tensor x = torch::ones({1, 1});
  const at::Tensor w = torch::ones({1, 1}).requires_grad_();
  const AutocastScope scope(on_cpu(at::kBFloat16));
  {
    const torch::NoGradGuard no_grad;
    (void)x.mm(w);
  }
  EXPECT_TRUE(x.mm(w).requires_grad());
}

TEST(Autocast, RefusesTypesAndDevicesThatItIsNotFor) {
  const AutocastState here = AutocastState::here();
  EXPECT_THROW((void)here.on(at::kCPU, at::kDouble), tw::ContractError);
  EXPECT_THROW((void)here.on(at::kMeta, at::kBFloat16), tw::ContractError);
  EXPECT_THROW((void)here.on(at::kPrivateUse1, at::kBFloat16), tw::ContractError);
}

}  // namespace autocast_test
