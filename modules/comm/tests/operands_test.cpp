// SPDX-License-Identifier: Apache-2.0
// Parts of a staged tensor: each one arrives, and is copied back, before the next one.
#include "operands.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <array>
#include <cstring>
#include <streams.hpp>
#include <vector>

namespace operands_test {

using tw::Operands;
using tw::testing::device;
using tw::testing::world;

// A part reports that it is ready at the second query at the latest, as on the simulated accelerator.
bool becomes_ready(const Operands::Part& part) { return part.ready(world()) || part.ready(world()); }

float first_of(const Operands::Part& part) {
  float value;
  std::memcpy(&value, part.memory, sizeof value);
  return value;
}

TEST(Operands, PartsComeOneByOneAndGoBackBesideThem) {
  if (device().is_cpu() || tw::testing::on_a_real_device()) GTEST_SKIP() << "where time passes by being asked";
  const at::Tensor x = torch::arange(5, at::kFloat).to(device());
  Operands operands(tw::Collective::allreduce, false);
  const auto parts = operands.in_parts(x, 2, true, true);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[2].count, 1);
  std::memset(parts[0].memory, 0xff, 5 * sizeof(float));
  ASSERT_TRUE(becomes_ready(parts[0]));
  EXPECT_EQ(first_of(parts[0]), 0);
  EXPECT_NE(first_of(parts[1]), 2) << "it came with the first part";
  const std::array<float, 2> changed{10, 11};
  std::memcpy(parts[0].memory, changed.data(), sizeof changed);
  parts[0].copy_out();
  ASSERT_TRUE(becomes_ready(parts[1]));
  ASSERT_TRUE(becomes_ready(parts[2]));
  parts[1].copy_out();
  parts[2].copy_out();
  operands.finish();
  operands.operation_stream()->join_stream();
  EXPECT_TRUE(torch::equal(x.cpu(), torch::tensor({10.F, 11.F, 2.F, 3.F, 4.F})));
}

// On a GPU, streams run concurrently and not in the order in which they are waited for. Here the stream that was used last runs first.
void let_streams_run_backwards() {
  std::vector<c10::Stream> pool;
  for (int i = 0; i < 8; ++i) pool.push_back(tw::testing::accelerator::stream_of_pool(device()));  // cycles to the last one
  for (auto stream = pool.rbegin(); stream != pool.rend(); ++stream) tw::testing::accelerator::finish(*stream);
}

TEST(Operands, PartsAreNotGivenBackOverWhatTheStreamHasYetToRead) {
  if (device().is_cpu() || tw::testing::on_a_real_device()) GTEST_SKIP() << "where streams run when they are told to";
  const at::Tensor x = torch::ones({4}).to(device());
  const at::Tensor doubled = x.mul(2);  // not yet computed
  Operands operands(tw::Collective::broadcast, false);
  const auto parts = operands.in_parts(x, 2, false, true);
  const std::array<float, 2> received{7, 7};
  for (const Operands::Part& part : parts) {
    std::memcpy(part.memory, received.data(), sizeof received);
    part.copy_out();
  }
  operands.finish();
  let_streams_run_backwards();
  operands.operation_stream()->join_stream();
  EXPECT_TRUE(doubled.cpu().eq(2).all().item<bool>()) << doubled.cpu();
  EXPECT_TRUE(x.cpu().eq(7).all().item<bool>()) << x.cpu();
}

}  // namespace operands_test
