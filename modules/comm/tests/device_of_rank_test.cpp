// SPDX-License-Identifier: Apache-2.0
// Assignment of devices to ranks.
#include "mpi_test.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <functional>
#include <tw/base/error.hpp>
#include <tw/comm/device.hpp>

namespace device_of_rank_test {

using tw::device_of_rank;
using tw::testing::world;

void expect_error(const std::string& wanted, const std::string& part) {
  try {
    (void)device_of_rank(world(), wanted);
    ADD_FAILURE() << "no exception that says '" << part << "'";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

int devices_of(c10::DeviceType type) { return c10::impl::hasDeviceGuardImpl(type) ? c10::impl::VirtualGuardImpl(type).deviceCount() : 0; }

TEST(DeviceOfRank, IsTheCpuWhereThereIsNoAccelerator) {
  EXPECT_EQ(device_of_rank(world(), "cpu"), c10::Device(c10::kCPU));
  if (devices_of(c10::kCUDA) > 0) GTEST_SKIP() << "there is a GPU";
  const bool knows_cuda = c10::impl::hasDeviceGuardImpl(c10::kCUDA);
  expect_error("cuda", knows_cuda ? "there is no cuda device on node " : "there is no cuda device: this LibTorch was built without");
  if (!tw::testing::device().is_cpu()) return;
  EXPECT_EQ(device_of_rank(world(), "auto"), c10::Device(c10::kCPU));
}

TEST(DeviceOfRank, RanksOfANodeTakeTurns) {
  if (tw::testing::device().is_cpu()) GTEST_SKIP() << "tensors lie on the CPU";
  const c10::DeviceType type = tw::testing::device().type();
  const std::string kind = c10::DeviceTypeName(type, /*lower_case=*/true);
  const int devices = devices_of(type);
  for (const std::string& wanted : {kind, std::string("auto")}) {
    const c10::Device device = device_of_rank(world(), wanted);
    EXPECT_EQ(device, c10::Device(type, static_cast<c10::DeviceIndex>(world().rank() % devices)));
    EXPECT_EQ(c10::impl::VirtualGuardImpl(type).getDevice(), device);
  }
  const std::string last = tw::concat(kind, ":", devices - 1);
  const std::string none = tw::concat(kind, ":", devices);
  EXPECT_EQ(device_of_rank(world(), last), c10::Device(type, static_cast<c10::DeviceIndex>(devices - 1)));
  expect_error(none, tw::concat("there is no ", none, " on node "));
  expect_error(none, tw::concat(", whose number of devices is ", devices));
  (void)device_of_rank(world(), kind);  // later tests use it again
}

TEST(DeviceOfRank, RefusesWhatIsNone) {
  expect_error("gpu", "'gpu' is not a device: expected cpu, auto, or an accelerator such as cuda or cuda:1");
  expect_error("meta", "'meta' is not a device");
}

TW_TEST_ON(DeviceOfRank, RefusesWhatDiffers, {.least = 2}) {
  expect_error(world().rank() == 1 ? "auto" : "cpu", "rank 1 has 'auto' where rank 0 has 'cpu'");
}

}  // namespace device_of_rank_test
