// SPDX-License-Identifier: Apache-2.0
// What a device's stream and the host wait for. On the simulated accelerator a missing wait always changes the numbers, on a GPU only sometimes.
// (Results by operation, dtype and size: collectives_test with --device.)
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <accelerator.hpp>
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <ipc_double.hpp>
#include <nccl_double.hpp>
#include <tw/comm.hpp>
#include <tw/mpi/device_awareness.hpp>

namespace device_test {

using tw::ReduceOp;
using tw::testing::device;
using tw::testing::expect_host_waits;
using tw::testing::message_of;
using tw::testing::world;
namespace accelerator = tw::testing::accelerator;

at::TensorOptions there() { return at::TensorOptions().device(device()); }

c10::Stream side_stream() { return c10::impl::VirtualGuardImpl(device().type()).getStreamFromGlobalPool(device(), false); }

/// Zeros that become `value` some time later.
at::Tensor late(double value, int64_t count = 5) {
  const at::Tensor tensor = torch::zeros({count}, there());
  tensor.copy_(torch::full({count}, value).pin_memory(), /*non_blocking=*/true);
  return tensor;
}

constexpr int64_t of_three_parts = (int64_t{5} << 20) / 2;  // float32 elements, if staged

double sum_of_ranks() { return world().size() * (world().size() + 1) / 2.0; }
double mine() { return int{world().rank()} + 1; }

void expect_all(const at::Tensor& tensor, double value) {
  EXPECT_TRUE(tensor.cpu().eq(value).all().item<bool>()) << tensor.cpu() << "is not " << value;
}

TEST(Devices, TheHostNeverWaitsAndTheStreamDoes) {
  const at::Tensor x = late(mine());
  const at::Tensor out = torch::zeros({world().size(), 5}, there());
  expect_host_waits(0, [&] {
    tw::allreduce(world(), x, ReduceOp::sum);
    x.add_(1);
    tw::allgather(world(), x, out);
    out.mul_(2);
    tw::broadcast(world(), out, tw::Rank(0));
    tw::barrier(world());
  });
  expect_all(out, 2 * (sum_of_ranks() + 1));
}

TEST(Devices, AnotherStreamMayWait) {
  const at::Tensor x = late(mine());
  tw::Work work = tw::iallreduce(world(), x, ReduceOp::sum);
  const c10::StreamGuard in(side_stream());
  work.wait();
  expect_all(x, sum_of_ranks());
}

TEST(Devices, TheHostWaitsWhenAsked) {
  const at::Tensor x = late(mine());
  tw::Work work = tw::iallreduce(world(), x, ReduceOp::sum);
  expect_host_waits(1, [&] { work.wait_on_host(); });
  const c10::StreamGuard in(side_stream());  // which waits for nothing
  expect_all(x, sum_of_ranks());
}

TEST(Devices, TensorsMayBeDroppedInFlight) {
  at::Tensor x = late(mine(), 1000);
  const at::Tensor out = torch::zeros({world().size(), 1000}, there());
  tw::Work work = tw::iallgather(world(), x, out);
  x.reset();
  work.wait();
  for (int rank = 0; rank < world().size(); ++rank) expect_all(out[rank], rank + 1);
}

TEST(Devices, AResultMayBeFreedBeforeItsCopyIsMade) {
  at::Tensor x = late(mine(), 1000);
  tw::allreduce(world(), x, ReduceOp::sum);
  const at::Tensor doubled = x.mul(2);
  x.reset();
  expect_all(doubled, 2 * sum_of_ranks());
}

TEST(Devices, CallsOfBothKindsKeepTheirOrder) {
  std::vector<tw::Work> works;
  std::vector<at::Tensor> tensors;
  for (int i = 0; i < 30; ++i) {
    tensors.push_back(i % 3 == 0 ? torch::full({100 + i}, mine()) : late(mine(), 100 + i));
    works.push_back(tw::iallreduce(world(), tensors.back(), ReduceOp::sum));
  }
  tw::wait_all(works);
  for (const at::Tensor& tensor : tensors) expect_all(tensor, sum_of_ranks());
}

TW_TEST_ON(Devices, MessagesOfBothKindsKeepTheirOrder, {.least = 2}) {
  const int next = (world().rank() + 1) % world().size();
  const int previous = (world().rank() + world().size() - 1) % world().size();
  std::vector<tw::Work> works;
  std::vector<at::Tensor> received;
  for (int i = 0; i < 10; ++i) {
    works.push_back(tw::isend(world(), i % 2 == 0 ? late(i) : torch::full({5}, double(i)), tw::Rank(next)));
    received.push_back(torch::zeros({5}, i % 3 == 0 ? there() : at::TensorOptions()));
    works.push_back(tw::irecv(world(), received.back(), tw::Rank(previous)));
  }
  tw::wait_all(works);
  for (int i = 0; i < 10; ++i) expect_all(received[static_cast<size_t>(i)], i);
}

TEST(Devices, WhatTheStreamHasYetToReadIsNotOverwritten) {
  for (const int64_t count : {int64_t{5}, of_three_parts}) {
    for (const bool strided : {false, true}) {
      const at::Tensor x = strided ? late(mine(), 2 * count).slice(0, 0, 2 * count, 2) : late(mine(), count);
      const at::Tensor doubled = x.mul(2);  // computed later
      tw::broadcast(world(), x, tw::Rank(0));
      expect_all(x, 1);
      expect_all(doubled, 2 * mine());
    }
  }
}

TEST(Devices, LargeTensorsGoAmongSmallOnes) {
  const tw::Rank last(world().size() - 1);
  const at::Tensor ramp = torch::arange(of_three_parts, at::kFloat).remainder(1021);  // integers: sums are exact
  for (const bool strided : {false, true}) {
    const auto late_ramp = [&] {
      const at::Tensor memory = torch::zeros({of_three_parts, 2}, there());
      const at::Tensor x = strided ? memory.select(1, 0) : memory.view(-1).narrow(0, 0, of_three_parts);
      x.copy_(ramp.mul(mine()).pin_memory(), /*non_blocking=*/true);
      return x;
    };
    const at::Tensor sum = late_ramp(), copied = late_ramp(), reduced = late_ramp(), small = late(mine());
    std::vector<tw::Work> works;
    works.push_back(tw::iallreduce(world(), sum, ReduceOp::sum));
    works.push_back(tw::iallreduce(world(), small, ReduceOp::sum));
    works.push_back(tw::ibroadcast(world(), copied, last));
    works.push_back(tw::ireduce(world(), reduced, ReduceOp::max, last));
    tw::wait_all(works);
    expect_all(small, sum_of_ranks());
    EXPECT_TRUE(torch::equal(sum.cpu(), ramp * sum_of_ranks()));
    EXPECT_TRUE(torch::equal(copied.cpu(), ramp * world().size()));
    EXPECT_TRUE(torch::equal(reduced.cpu(), ramp * mine())) << "the last rank has the largest";
  }
}

TW_TEST_ON(Devices, NamesTheRankWhoseLargeTensorHasOtherParts, {.least = 2}) {
  if (tw::testing::on_a_real_device() || accelerator::nccl_is_offered()) GTEST_SKIP() << "NCCL may be there";
  const tw::Communicator comm = world().dup();
  const bool last = comm.rank() == comm.size() - 1;
  const std::string message = message_of([&] { tw::allreduce(comm, late(1, last ? of_three_parts * 2 : of_three_parts), ReduceOp::sum); });
  EXPECT_NE(message.find(tw::concat("rank ", comm.size() - 1, " has 'allreduce sum of ", of_three_parts * 2, " float32")), std::string::npos)
      << message;
  const at::Tensor x = late(mine(), of_three_parts);
  tw::allreduce(comm, x, ReduceOp::sum);
  expect_all(x, sum_of_ranks());
}

TEST(Devices, SaysWhichBackendTakesTheirMemory) {
  if (tw::testing::on_a_real_device()) GTEST_SKIP() << "which there are is not known";
  const tw::Communicator comm = world().dup();
  const bool has_nccl = accelerator::nccl_is_offered() && world().size() <= 3;  // if its three devices are not shared
  const bool alone = world().size() == 1;
  const std::string taker_of_all = alone ? "alone" : has_nccl ? "nccl" : accelerator::ipc_is_offered() ? "ipc" : "staged";
  const std::string mover = taker_of_all == "staged" && tw::mpi::takes_devices(comm, "simulated") ? "direct" : taker_of_all;
  const auto taker = [&](tw::Collective collective) {
    for (const tw::Availability& entry : tw::availability(comm)) {
      if (entry.collective == collective && entry.on_device && entry.chosen) return entry.backend;
    }
    return std::string("none");
  };
  EXPECT_EQ(taker(tw::Collective::broadcast), mover);
  EXPECT_EQ(taker(tw::Collective::allreduce), taker_of_all);
  tw::choose_backend(comm, "staged");
  EXPECT_EQ(taker(tw::Collective::broadcast), "staged");
  const at::Tensor x = late(mine());
  tw::broadcast(comm, x, tw::Rank(0));
  expect_all(x, 1);
  tw::choose_backend(comm, std::nullopt);
  EXPECT_EQ(taker(tw::Collective::broadcast), mover);
  const std::string unknown = message_of([&] { tw::choose_backend(comm, "pigeons"); });
  EXPECT_NE(unknown.find("there is no backend 'pigeons'; there are shared_memory, mpi, hierarchical, ring, recursive_doubling, circulant, tree, "
                         "chain, double_tree, pairwise, bruck, and for devices only"),
            std::string::npos)
      << unknown;
}

TEST(Devices, GatherScatterAndExchangeOfAnySizes) {
  const auto size = static_cast<size_t>(world().size());
  std::vector<at::Tensor> to, from;
  for (size_t rank = 0; rank < size; ++rank) {
    to.push_back(late(mine(), static_cast<int64_t>(rank) + 1));
    from.push_back(torch::zeros({world().rank() + 1}, there()));
  }
  tw::alltoall(world(), to, from);
  for (size_t rank = 0; rank < size; ++rank) expect_all(from[rank], static_cast<double>(rank) + 1);

  tw::gather(world(), late(mine(), world().rank() + 1), to, tw::Rank(0));
  if (world().rank() == 0) {
    for (size_t rank = 0; rank < size; ++rank) expect_all(to[rank], static_cast<double>(rank) + 1);
  }
  const std::vector<at::Tensor> all = tw::allgather_variable(world(), late(mine(), world().rank() + 1));
  for (size_t rank = 0; rank < size; ++rank) {
    EXPECT_EQ(all[rank].device(), device());
    EXPECT_EQ(all[rank].numel(), static_cast<int64_t>(rank) + 1);
    expect_all(all[rank], static_cast<double>(rank) + 1);
  }
}

TEST(Devices, RefusesTensorsOfOneCallInSeveralPlaces) {
  const auto refusal = [](const at::Tensor& in, const at::Tensor& out) { return message_of([&] { tw::allgather(world(), in, out); }); };
  const at::Tensor here = torch::zeros({world().size()});
  EXPECT_NE(refusal(torch::ones({1}, there()), here)
                .find(tw::concat("allgather was given tensors on ", device().str(), " and on cpu; all tensors of a call must be on the same device")),
            std::string::npos);
  const int devices = c10::impl::VirtualGuardImpl(device().type()).deviceCount();
  const c10::Device next(device().type(), static_cast<c10::DeviceIndex>((device().index() + 1) % devices));
  if (next == device()) {
    tw::testing::leave_out("there is no second device");
  } else {
    const at::Tensor other = torch::zeros({world().size()}, at::TensorOptions().device(next));
    EXPECT_NE(refusal(torch::ones({1}, there()), other).find(tw::concat("on ", device().str(), " and on ", next.str())), std::string::npos);
  }
  EXPECT_NE(refusal(torch::ones({1}, at::kMeta), here).find("needs a dense tensor on the CPU, got one on meta"), std::string::npos);
}

TW_TEST_ON(Devices, NamesTheRankWhoseTensorLiesElsewhere, {.least = 2}) {
  // NCCL's calls carry no description: if ranks differ, the watchdog reports it.
  if (tw::testing::on_a_real_device() || accelerator::nccl_is_offered()) GTEST_SKIP() << "NCCL may be there";
  const bool last = world().rank() == world().size() - 1;
  const std::string message = message_of([&] { tw::allreduce(world(), last ? torch::ones({3}) : late(1, 3), ReduceOp::sum); });
  EXPECT_NE(message.find(tw::concat("rank ", world().size() - 1)), std::string::npos) << message;
  EXPECT_NE(message.find("allreduce sum of 3 float32 on a device"), std::string::npos) << message;
}

// How NCCL's work on a stream affects the host; with other backends, waits end with the message.

TW_TEST_ON(Nccl, AWaitHoldsUpTheStreamAndNotTheHost, {.least = 2}) {
  if (!accelerator::nccl_is_offered()) GTEST_SKIP() << "of NCCL's double";
  if (world().audited()) GTEST_SKIP() << "an audited call enters the stream when all ranks have made it";
  const tw::Communicator comm = world().dup();
  tw::choose_backend(comm, "nccl");                  // also if ranks share a device
  tw::allreduce(comm, late(mine()), ReduceOp::sum);  // connects, which needs all ranks
  const at::Tensor x = late(mine());
  const at::Tensor token = torch::zeros({1});
  if (world().rank() != 0) tw::recv(world(), token, tw::Rank(0));  // the others arrive after rank 0 has waited
  tw::allreduce(comm, x, ReduceOp::sum);
  x.add_(1);
  for (int rank = 1; world().rank() == 0 && rank < world().size(); ++rank) tw::send(world(), token, tw::Rank(rank));
  tw::barrier(world());  // its wait drives the engine, so that all ranks have done their part
  expect_all(x, sum_of_ranks() + 1);
}

TW_TEST_ON(Nccl, ARevocationEndsWhatIsInStreams, {.least = 2}) {
  if (!accelerator::nccl_is_offered()) GTEST_SKIP() << "of NCCL's double";
  if (world().audited()) GTEST_SKIP() << "an audited call enters the stream when all ranks have made it";
  const tw::Communicator comm = world().dup();
  tw::choose_backend(comm, "nccl");
  tw::allreduce(comm, late(mine()), ReduceOp::sum);  // connects
  const int before = accelerator::nccl_aborts();
  if (comm.rank() == 0) {
    comm.revoke("rank 0 has better things to do");
  } else {
    const at::Tensor x = late(mine());
    tw::Work work = tw::iallreduce(comm, x, ReduceOp::sum);
    const std::string message = message_of([&] { work.wait_on_host(); });
    EXPECT_NE(message.find("rank 0 has better things to do"), std::string::npos) << message;
    EXPECT_EQ(accelerator::nccl_aborts(), before + 1);
    (void)x.cpu();  // the stream continues
  }
}

TW_TEST_ON(Nccl, IsNotForRanksThatShareADeviceUnlessItIsTold, {.least = 4}) {
  if (!accelerator::nccl_is_offered()) GTEST_SKIP() << "of NCCL's double";
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
  const tw::Communicator comm = world().dup();
  const auto all = tw::availability(comm);
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  const auto found = std::find_if(all.begin(), all.end(), [](const tw::Availability& entry) { return entry.backend == "nccl"; });
  EXPECT_EQ(found->why_not.find("ranks 0 and 3 share a device, which NCCL allows from version 2.30"), 0) << found->why_not;
  EXPECT_FALSE(found->chosen);
  const at::Tensor x = late(mine());
  tw::allreduce(comm, x, ReduceOp::sum);
  expect_all(x, sum_of_ranks());
}

}  // namespace device_test
