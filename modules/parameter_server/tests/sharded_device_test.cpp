// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <tw/comm.hpp>
#include <tw/parameter_server.hpp>

#include "mpi_test.hpp"

namespace tw::parameter_server {
namespace sharded_device_test {

using tw::testing::world;

class ShardedDevices : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Through, ShardedDevices, ::testing::Values(true, false),
                         [](const auto& through) { return through.param ? "memory" : "messages"; });

TEST_P(ShardedDevices, PushAndPullTensorsThatLieThere) {
  const auto there = [](const at::Tensor& tensor) { return tensor.to(tw::testing::device()); };
  const int p = world().size();
  const at::Tensor expected = torch::arange(12.0).view({3, 4}) + p * (p + 1) / 2.0;
  ShardedTensor centre(world(), there(torch::arange(12.0).view({3, 4})), {.share_memory = GetParam()});
  centre.push(there(torch::full({4, 3}, world().rank() + 1.0)).t()).wait();
  barrier(world());
  const at::Tensor out = there(torch::zeros({3, 4}));
  ShardedTensor::Handle handle = centre.pull(out);
  tw::testing::expect_host_waits(0, [&] { handle.wait(); });
  EXPECT_TRUE(out.cpu().equal(expected)) << out.cpu();
  out.zero_();
  handle.wait();  // the second wait copies nothing
  EXPECT_TRUE(out.cpu().equal(torch::zeros({3, 4})));
  EXPECT_TRUE(centre.prefetch().take().equal(expected));
  (void)centre.pull(out);
  while (centre.in_flight() > 0) progress(world());
  EXPECT_TRUE(out.cpu().equal(out.is_cpu() ? expected : torch::zeros({3, 4}))) << "the dropped handle makes no copy to the device";
  centre.finish();
}

}  // namespace sharded_device_test
}  // namespace tw::parameter_server
