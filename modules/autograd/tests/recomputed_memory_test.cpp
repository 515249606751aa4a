// SPDX-License-Identifier: Apache-2.0
// Memory held by a chain of recomputed segments: bytes of tensors, as LibTorch's allocator reports them.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/tensor/held_memory.hpp>

#include "plain_call.hpp"

namespace recomputed_memory_test {

constexpr int64_t numbers = 32768;
constexpr double state_bytes = sizeof(float) * numbers;
constexpr int segments = 12;
constexpr int layers = 10;  // of a segment; each keeps one state for its backward pass

struct Usage {  // in states
  double forward;
  double between;
  double backward;
  double stays;
};

template <class Call>
Usage usage_of(const Call& call) {
  const at::Tensor x = torch::ones({numbers}).requires_grad_();
  x.mutable_grad() = torch::zeros({numbers});
  tw::HeldMemory held;
  const auto segment = [](at::Tensor h) {
    for (int i = 0; i < layers; ++i) h = h.tanh();
    return h;
  };
  Usage usage{};
  {
    at::Tensor y = x;
    for (int i = 0; i < segments; ++i) y = call(segment, y);
    usage.forward = static_cast<double>(held.most()) / state_bytes;
    usage.between = static_cast<double>(held.now()) / state_bytes;
    held.forget_most();
    y.backward(torch::ones({1}).expand({numbers}));
    usage.backward = static_cast<double>(held.most()) / state_bytes;
  }
  usage.stays = static_cast<double>(held.now()) / state_bytes;
  return usage;
}

// After the forward pass: each segment's output, which is the next one's input, and less than a tenth of a state of small objects. During a pass, one
// segment's states in addition; during the backward pass, also a cotangent and the next one.
TEST(RecomputedMemory, OneStateASegmentAndOneSegment) {
  const Usage plain = usage_of(tw::testing::Plain());
  EXPECT_NEAR(plain.between, segments * layers, 0.1);
  const Usage ours = usage_of(tw::testing::Recomputed());
  EXPECT_NEAR(ours.between, segments, 0.1);
  EXPECT_LE(ours.forward, segments + layers);
  EXPECT_LE(ours.backward, segments + layers + 2.1);
  EXPECT_NEAR(ours.stays, 0, 0.1);
  RecordProperty("plain", std::to_string(plain.backward));
  RecordProperty("forward", std::to_string(ours.forward));
  RecordProperty("backward", std::to_string(ours.backward));
}

}  // namespace recomputed_memory_test
