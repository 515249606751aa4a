// SPDX-License-Identifier: Apache-2.0
// Which rank computes where; on devices: two simulated ones.
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

TEST(DeviceOfRank, RanksOfANodeTakeTurns) {
  if (tw::testing::device().is_cpu()) {
    EXPECT_EQ(device_of_rank(world(), "cpu"), c10::Device(c10::kCPU));
    EXPECT_EQ(device_of_rank(world(), "auto"), c10::Device(c10::kCPU));
    expect_error("cuda", "there is no cuda device: this LibTorch was built without");
    return;
  }
  for (const std::string wanted : {"simulated", "auto"}) {
    const c10::Device device = device_of_rank(world(), wanted);
    EXPECT_EQ(device, c10::Device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(world().rank() % 2)));
    EXPECT_EQ(c10::impl::VirtualGuardImpl(device.type()).getDevice(), device);
  }
  EXPECT_EQ(device_of_rank(world(), "simulated:1"), c10::Device(c10::kPrivateUse1, 1));
  EXPECT_EQ(device_of_rank(world(), "cpu"), c10::Device(c10::kCPU));
  expect_error("simulated:2", "there is no simulated:2 on node ");
  expect_error("simulated:2", ", which has 2");
}

TEST(DeviceOfRank, RefusesWhatIsNone) {
  expect_error("gpu", "'gpu' is no device to compute on: it is cpu, auto, or an accelerator such as cuda or cuda:1");
  expect_error("meta", "'meta' is no device to compute on");
}

TW_TEST_ON(DeviceOfRank, RefusesWhatDiffers, {.least = 2}) {
  expect_error(world().rank() == 1 ? "auto" : "cpu", "rank 1 has 'auto' where rank 0 has 'cpu'");
}

}  // namespace device_of_rank_test
