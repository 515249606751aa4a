// SPDX-License-Identifier: Apache-2.0
// Collectives through memory shared between devices, in slots so small that tensors take many chunks: a missing wait for a mark gives a wrong number.
// (Results by operation, dtype and size: collectives_test with --ipc.)
#include "link.hpp"
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <ipc_double.hpp>
#include <optional>
#include <tw/comm.hpp>
#include <tw/mpi/topology.hpp>

namespace ipc_test {

using tw::ReduceOp;
using tw::testing::device;
using tw::testing::expect_host_waits;
using tw::testing::message_of;
using tw::testing::world;
namespace accelerator = tw::testing::accelerator;

at::TensorOptions there() { return at::TensorOptions().device(device()).dtype(torch::kDouble); }

std::string why_not(const tw::Communicator& comm) {
  const auto all = tw::availability(comm);
  const auto found = std::find_if(all.begin(), all.end(), [](const tw::Availability& entry) { return entry.backend == "ipc"; });
  return found == all.end() ? "there are no devices" : found->why_not;
}

/// A communicator whose devices share slots of eight float64 for each rank; empty if they cannot.
std::optional<tw::Communicator> small_slots() {
  tw::Communicator comm = world().dup();
  tw::Link::make(comm, {.device_bytes = int64_t{64} * comm.size(), .device_flat_bytes = 64}, tw::ranks_of_this_node(comm));
  if (!why_not(comm).empty()) {
    tw::testing::leave_out(why_not(comm));
    return {};
  }
  tw::choose_backend(comm, "ipc");
  return comm;
}

/// Small integers, different on each rank: their sums are exact in any order.
at::Tensor numbers(int64_t count) { return torch::arange(count, torch::kDouble).mul(3).add(100 * int{world().rank()}).remainder(257); }

/// The same numbers, written some time later.
at::Tensor late(const at::Tensor& tensor) {
  const at::Tensor result = torch::zeros(tensor.sizes(), there());
  result.copy_(tensor.pin_memory(), /*non_blocking=*/true);
  return result;
}

void expect_same(const at::Tensor& on_device, const at::Tensor& on_host) {
  EXPECT_TRUE(on_device.cpu().equal(on_host)) << on_device.cpu() << " is not " << on_host;
}

class Sizes : public testing::TestWithParam<int64_t> {};

// From one chunk to many, with a shorter last one; sizes below and above the one at which ranks divide the reduction.
INSTANTIATE_TEST_SUITE_P(Ipc, Sizes, testing::Values(0, 1, 8, 9, 100, 1001));

TEST_P(Sizes, CollectivesGiveWhatTheHostGives) {
  const auto comm = small_slots();
  if (!comm) GTEST_SKIP() << "no memory shared between devices";
  const int ranks = comm->size();
  const auto whole = numbers(GetParam());
  const auto parts = numbers(GetParam() * ranks);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
    const at::Tensor of_host = whole.clone();
    const at::Tensor of_device = late(whole);
    tw::allreduce(world(), of_host, op);
    tw::allreduce(*comm, of_device, op);
    expect_same(of_device, of_host);
  }
  for (const tw::Rank root : {tw::Rank(0), tw::Rank(ranks - 1)}) {
    const at::Tensor sent = late(whole);
    tw::broadcast(*comm, sent, root);
    const at::Tensor of_host = whole.clone();
    tw::broadcast(world(), of_host, root);
    expect_same(sent, of_host);
    const at::Tensor reduced = late(whole);
    tw::reduce(*comm, reduced, ReduceOp::sum, root);
    tw::allreduce(world(), of_host.copy_(whole), ReduceOp::sum);
    if (comm->rank() == root) expect_same(reduced, of_host);
  }
  const auto expect_same_of = [&](const at::Tensor& input, const at::Tensor& output, const auto& call) {
    const at::Tensor of_device = late(output);
    call(*comm, late(input), of_device);
    call(world(), input, output);
    expect_same(of_device, output);
  };
  expect_same_of(whole, torch::zeros_like(parts), [](auto& of, const auto& in, auto& out) { tw::allgather(of, in, out); });
  expect_same_of(parts, torch::zeros_like(whole), [](auto& of, const auto& in, auto& out) { tw::reduce_scatter(of, in, out, ReduceOp::sum); });
  expect_same_of(parts, torch::zeros_like(parts), [](auto& of, const auto& in, auto& out) { tw::alltoall(of, in, out); });
}

TEST(Ipc, CallsInFlightUseTheSlotsInTurn) {
  const auto comm = small_slots();
  if (!comm) GTEST_SKIP() << "no memory shared between devices";
  std::vector<at::Tensor> of_device;
  std::vector<at::Tensor> of_host;
  std::vector<tw::Work> works;
  expect_host_waits(0, [&] {
    for (int i = 0; i < 20; ++i) {
      of_host.push_back(numbers(5 + 7 * i));
      of_device.push_back(late(of_host.back()));
      works.push_back(tw::iallreduce(*comm, of_device.back(), ReduceOp::sum));
      if (i % 5 == 0) tw::barrier(*comm);  // on the host, over the same channel
    }
    tw::wait_all(works);
  });
  for (size_t i = 0; i < of_host.size(); ++i) {
    tw::allreduce(world(), of_host[i], ReduceOp::sum);
    expect_same(of_device[i], of_host[i]);
  }
}

TEST(Ipc, NamesTheRanksThatCallSomethingElse) {
  const auto comm = small_slots();
  if (!comm) GTEST_SKIP() << "no memory shared between devices";
  const bool last = comm->rank() == comm->size() - 1;
  const at::Tensor other = last ? late(numbers(30)) : late(numbers(20));
  const at::Tensor elsewhere = last ? numbers(20) : late(numbers(20));
  for (const at::Tensor& tensor : {other, elsewhere}) {
    const std::string message = message_of([&] { tw::allreduce(*comm, tensor, ReduceOp::sum); });
    EXPECT_NE(message.find(tw::concat("rank ", comm->size() - 1, " has 'allreduce sum of ")), std::string::npos) << message;
    const at::Tensor of_host = numbers(50);  // later calls work, in the same slots on all ranks
    const at::Tensor of_device = late(of_host);
    tw::allreduce(*comm, of_device, ReduceOp::sum);
    tw::allreduce(world(), of_host, ReduceOp::sum);
    expect_same(of_device, of_host);
  }
}

TEST(Ipc, TheNextCommunicatorOfTheSameRanksGetsTheMemory) {
  if (!accelerator::ipc_is_offered()) GTEST_SKIP() << "of the double";
  (void)small_slots();
  const int before = accelerator::ipc_allocations();
  for (int i = 0; i < 3; ++i) (void)small_slots();
  EXPECT_EQ(accelerator::ipc_allocations(), before);
  const auto one = small_slots();
  const auto other = small_slots();
  EXPECT_EQ(accelerator::ipc_allocations(), before + 1);
  const at::Tensor a = late(numbers(99));
  const at::Tensor b = late(numbers(99).mul(2));
  tw::Work first = tw::iallreduce(*one, a, ReduceOp::sum);
  tw::allreduce(*other, b, ReduceOp::sum);
  first.wait();
  expect_same(b, a.mul(2).cpu());
}

TEST(Ipc, SaysWhichRankHasNoMemoryToShare) {
  if (!accelerator::ipc_is_offered()) GTEST_SKIP() << "of the double";
  const tw::Communicator comm = world().dup();
  tw::Link::make(comm, {.device_bytes = 4096}, tw::ranks_of_this_node(comm));  // a size not used before
  accelerator::let_ipc_memory_be_full(comm.rank() == 1);
  const std::string message = why_not(comm);
  accelerator::let_ipc_memory_be_full(false);
  EXPECT_EQ(message.find("rank 1: allocating memory to share failed on simulated:"), 0) << message;
  EXPECT_NE(message.find(": out of memory"), std::string::npos) << message;
  const at::Tensor x = late(torch::ones({3}, torch::kDouble));
  tw::allreduce(comm, x, ReduceOp::sum);  // staged
  expect_same(x, torch::full({3}, double(comm.size()), torch::kDouble));
}

}  // namespace ipc_test
