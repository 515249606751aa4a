// SPDX-License-Identifier: Apache-2.0
#include <c10/core/Allocator.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/tensor/flat_buffer.hpp>
#include <tw/tensor/held_memory.hpp>

namespace held_memory_test {

using tw::HeldMemory;

constexpr int64_t bytes = 4000;
at::Tensor block() { return at::empty({bytes}, at::kByte); }

TEST(HeldMemory, CountsWhatIsTakenAndGivenBack) {
  HeldMemory held;
  at::Tensor a = block();
  EXPECT_EQ(held.now(), bytes);
  EXPECT_TRUE(held.has(a.const_data_ptr()));
  const void* const address = a.const_data_ptr();
  {
    const at::Tensor b = block();
  }
  a.reset();
  EXPECT_EQ(held.now(), 0);
  EXPECT_FALSE(held.has(address));
  EXPECT_EQ(held.most(), 2 * bytes);
  held.forget_most();
  EXPECT_EQ(held.most(), 0);
  EXPECT_EQ(tw::peak_bytes(at::kCPU, [] { (void)block(); }), bytes);
  EXPECT_EQ(held.most(), 0) << "the youngest counts";
}

TEST(HeldMemory, LeavesOutWhatIsOlder) {
  at::Tensor before = block();
  testing::internal::CaptureStderr();
  const HeldMemory held;
  before.reset();
  EXPECT_EQ(held.now(), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "LibTorch warns of memory that it did not see taken";
}

TEST(HeldMemory, PausesAndForgets) {
  HeldMemory held;
  at::Tensor before = block();
  held.pause();
  at::Tensor meanwhile = block();
  const tw::FlatBuffer pages(int64_t{4} << 20, at::kByte);
  EXPECT_EQ(held.now(), 0);
  held.resume();
  const at::Tensor after = block();
  before.reset();
  meanwhile.reset();
  EXPECT_EQ(held.now(), bytes);
  EXPECT_EQ(held.most(), bytes);
}

TEST(HeldMemory, CountsFlatBuffersOfAnySize) {
  const int64_t large = int64_t{4} << 20;
  const HeldMemory held;
  {
    const tw::FlatBuffer small(bytes, at::kByte);
    const tw::FlatBuffer pages(large, at::kByte);
    EXPECT_TRUE(held.has(pages.storage().const_data_ptr()));
    EXPECT_EQ(held.now(), bytes + large);
  }
  EXPECT_EQ(held.now(), 0);
}

TEST(HeldMemory, TellsOfEachBlock) {
  std::vector<std::pair<const void*, int64_t>> told;
  const void* address = nullptr;
  {
    const HeldMemory held(at::kCPU, [&](const void* at, int64_t size) { told.emplace_back(at, size); });
    const at::Tensor a = block();
    address = a.const_data_ptr();
  }
  const std::vector<std::pair<const void*, int64_t>> expected{{address, bytes}, {address, -bytes}};
  EXPECT_EQ(told, expected);
}

// Simulates a block freed by another thread, which does not report it.
TEST(HeldMemory, BelievesInAPlaceOnce) {
  HeldMemory held;
  int place = 0;
  const auto take = [&](int64_t size) { c10::reportMemoryUsageToProfiler(&place, size, 0, 0, c10::Device(at::kCPU)); };
  take(bytes);
  take(bytes / 2);
  EXPECT_EQ(held.now(), bytes / 2);
  EXPECT_EQ(held.most(), bytes);
}

}  // namespace held_memory_test
