// SPDX-License-Identifier: Apache-2.0
// Batches from a loader for a device.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <accelerator.hpp>
#include <tw/data.hpp>

namespace device_loader_test {

namespace accelerator = tw::testing::accelerator;

[[maybe_unused]] const bool installed = (accelerator::install(2), true);

// Sample i is [i, i] with target i.
tw::TensorDataset count_to(int64_t n) { return {torch::arange(n).to(torch::kFloat).reshape({n, 1}).repeat({1, 2}), torch::arange(n)}; }

tw::Loader make_loader(const tw::Dataset& dataset, c10::Device device, int workers) {
  return {dataset,
          tw::DistributedSampler(static_cast<size_t>(dataset.size()), 1, 0, {.seed = 4}),
          {.global_batch = 8, .workers = workers, .prefetch = 3, .device = device}};
}

TEST(DeviceLoader, HandsOutWhatTheCpuGetsAndTheHostDoesNotWait) {
  const auto dataset = count_to(53);
  for (const int workers : {0, 2}) {
    for (const int index : {0, 1}) {
      auto here = make_loader(dataset, c10::Device(c10::kCPU), workers);
      auto there = make_loader(dataset, accelerator::device(index), workers);
      here.begin_epoch(3);
      there.begin_epoch(3);
      const int64_t before = accelerator::host_waits();
      std::vector<std::pair<tw::Batch, tw::Batch>> batches;
      while (auto batch = here.next()) batches.emplace_back(*batch, there.next().value());
      EXPECT_EQ(there.next(), std::nullopt);
      EXPECT_EQ(accelerator::host_waits(), before);
      EXPECT_EQ(batches.size(), 7U);
      for (const auto& [expected, found] : batches) {
        EXPECT_EQ(found.inputs.device(), accelerator::device(index));
        EXPECT_TRUE(found.inputs.cpu().equal(expected.inputs));
        EXPECT_TRUE(found.targets.cpu().equal(expected.targets));
      }
    }
  }
}

// The first batch is released while its use is still queued. Waiting for the second executes the loader's stream.
TEST(DeviceLoader, ABatchStaysUntilItWasUsed) {
  const auto dataset = count_to(16);
  const c10::Device device = accelerator::device();
  auto here = make_loader(dataset, c10::Device(c10::kCPU), 0);
  auto there = make_loader(dataset, device, 0);
  here.begin_epoch(0);
  there.begin_epoch(0);
  const at::Tensor expected = here.next()->inputs * 2;
  const at::Tensor doubled = there.next()->inputs * 2;
  {
    const c10::StreamGuard elsewhere(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device));
    EXPECT_TRUE(there.next()->inputs.cpu().equal(here.next()->inputs));
  }
  EXPECT_TRUE(doubled.cpu().equal(expected)) << doubled.cpu();
}

}  // namespace device_loader_test
