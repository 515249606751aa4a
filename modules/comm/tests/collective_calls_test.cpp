// SPDX-License-Identifier: Apache-2.0
// What collectives and messages refuse, and that the next call works.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <functional>
#include <tw/comm.hpp>

namespace collective_calls_test {

using tw::ReduceOp;
using tw::testing::message_of;
using tw::testing::on_device;
using tw::testing::world;

TEST(CollectiveCalls, ARefusedSendrecvTakesNoMessage) {
  const int next = (world().rank() + 1) % world().size();
  const int previous = (world().rank() + world().size() - 1) % world().size();
  const at::Tensor mine = torch::full({3}, int{world().rank()}, on_device());
  const at::Tensor theirs = torch::full({3}, -1, mine.options());
  EXPECT_THROW(tw::sendrecv(world(), mine, tw::Rank(world().size()), theirs, tw::Rank(previous)), tw::ContractError);
  tw::sendrecv(world(), mine, tw::Rank(next), theirs, tw::Rank(previous));
  EXPECT_TRUE(theirs.eq(previous).all().item<bool>());
}

TW_TEST_ON(CollectiveCalls, RefuseMessagesThatAreTooShort, {.least = 2}) {
  const auto expect_short = [](const auto& call, const std::string& sent) {
    try {
      call();
      ADD_FAILURE() << "no exception";
    } catch (const tw::ContractError& error) {
      EXPECT_NE(std::string(error.what()).find(sent), std::string::npos) << error.what();
    }
  };
  const at::Tensor four = torch::ones({4}, on_device());
  const at::Tensor eight = torch::ones({8}, on_device());
  if (world().rank() == 0) {
    expect_short([&] { tw::recv(world(), eight, tw::Rank(1)); }, "sent 4 float32 where rank 0 receives 8 float32");
  } else if (world().rank() == 1) {
    tw::send(world(), four, tw::Rank(0));
  }
  const std::vector<at::Tensor> outputs(static_cast<size_t>(world().size()), eight.clone());
  if (world().rank() == 0) {
    expect_short([&] { tw::gather(world(), eight, outputs, tw::Rank(0)); }, "sent 4 float32 in gather where rank 0 receives 8 float32 in gather");
  } else {
    tw::gather(world(), four, {}, tw::Rank(0));
  }
  const bool last = world().rank() == world().size() - 1;
  const std::string differs = world().audited()
                                  ? " has 'allgather of 0 float64' where rank 0 has 'allgather of 0 float32'"  // the audit finds it first
                                  : " passes float64 where rank 0 passes float32";
  expect_short([&] { (void)tw::allgather_variable(world(), torch::ones({2}, on_device(last ? torch::kDouble : torch::kFloat))); },
               tw::concat("rank ", world().size() - 1, differs));
}

TW_TEST_ON(CollectiveCalls, RefuseMessagesOfAnotherTypeOrLength, {.least = 2}) {
  const auto receive = [](const at::Tensor& sent, const at::Tensor& received) {
    if (world().rank() == 1) tw::send(world(), sent, tw::Rank(0));
    return world().rank() == 0 ? message_of([&] { tw::recv(world(), received, tw::Rank(1)); }) : std::string();
  };
  const auto expect_both = [&](const at::Tensor& sent, const at::Tensor& received, const std::string& text) {
    const std::string message = receive(sent, received);
    EXPECT_TRUE(world().rank() != 0 || message.find(text) != std::string::npos) << message;
  };
  const auto zeros = [](int64_t count, at::ScalarType dtype) { return torch::zeros({count}, on_device(dtype)); };
  expect_both(zeros(4, at::kFloat), zeros(4, at::kInt), "sent 4 float32 where rank 0 receives 4 int32");
  expect_both(zeros(8, at::kFloat), zeros(4, at::kFloat), "sent 8 float32 where rank 0 receives 4 float32");  // MPI's truncation
  expect_both(zeros(0, at::kFloat), zeros(4, at::kFloat), "sent 0 float32 where rank 0 receives 4 float32");
  expect_both(zeros(100000, at::kFloat), zeros(4, at::kLong), "sent 100000 float32 where rank 0 receives 4 int64");
  const at::Tensor right = torch::full({3}, int{world().rank()}, on_device());
  EXPECT_TRUE(receive(right, right) == (world().rank() == 0 ? "nothing thrown" : ""));  // nothing of the refused messages is left
  EXPECT_TRUE(right.eq(world().rank() == 0 ? 1 : int{world().rank()}).all().item<bool>());
}

TEST(CollectiveCalls, RefuseListsOfTwoTypes) {
  const auto floats = torch::ones({2}, on_device());
  const std::vector<at::Tensor> inputs(static_cast<size_t>(world().size()), floats);
  const std::vector<at::Tensor> outputs(static_cast<size_t>(world().size()), torch::ones({2}, on_device(at::kInt)));
  const auto expect = [](const std::string& message, const std::string& text) { EXPECT_NE(message.find(text), std::string::npos) << message; };
  const tw::Rank me = world().rank();  // each rank alone: nothing is sent
  expect(message_of([&] { tw::gather(world(), floats, outputs, me); }), "gather was given tensors of float32 and of int32");
  expect(message_of([&] { tw::scatter(world(), inputs, outputs[0], me); }), "scatter was given tensors of int32 and of float32");
  expect(message_of([&] { tw::alltoall(world(), inputs, outputs); }), "alltoall was given tensors of float32 and of int32");
}

/// Refused before any data is sent: on all ranks, and the next call works.
TEST(CollectiveCalls, RefuseToWriteIntoExpandedTensors) {
  const int ranks = world().size();
  const auto expanded = [](int64_t count) { return torch::zeros({1}, on_device()).expand({count}); };
  const at::Tensor input = torch::ones({ranks}, on_device());
  const std::vector<at::Tensor> inputs(static_cast<size_t>(ranks), torch::ones({3}, on_device()));
  const std::vector<at::Tensor> outputs(static_cast<size_t>(ranks), expanded(3));
  const auto expect = [](const std::function<void()>& call) {
    const std::string message = message_of(call);
    EXPECT_NE(message.find("that was made by expand(): several of its elements share memory"), std::string::npos) << message;
  };
  expect([&] { tw::allreduce(world(), expanded(3), ReduceOp::sum); });
  expect([&] { tw::allreduce(world(), {input.clone(), expanded(3)}, ReduceOp::sum); });
  expect([&] { tw::allgather(world(), torch::ones({3}, on_device()), expanded(3 * ranks)); });
  expect([&] { tw::reduce_scatter(world(), torch::ones({3 * ranks}, on_device()), expanded(3), ReduceOp::sum); });
  expect([&] { tw::alltoall(world(), torch::ones({2 * ranks}, on_device()), expanded(2 * ranks)); });
  expect([&] { tw::alltoall(world(), inputs, outputs); });
  expect([&] { tw::recv(world(), expanded(3), tw::Rank(0)); });
  expect([&] { tw::scatter(world(), inputs, expanded(3), world().rank()); });
  tw::allreduce(world(), input, ReduceOp::sum);
  EXPECT_TRUE(input.eq(ranks).all().item<bool>());
}

TEST(CollectiveCalls, RefuseWhatDoesNotFit) {
  EXPECT_THROW(tw::allreduce(world(), at::Tensor(), ReduceOp::sum), tw::ContractError);
  EXPECT_THROW(tw::allgather(world(), torch::ones({3}), torch::ones({3 * world().size() + 1})), tw::ContractError);
  EXPECT_THROW(tw::allgather(world(), torch::ones({3}), torch::ones({3 * world().size()}, torch::kDouble)), tw::ContractError);
  EXPECT_THROW(tw::reduce_scatter(world(), torch::ones({3 * world().size() + 1}), torch::ones({3}), ReduceOp::sum), tw::ContractError);
  EXPECT_THROW(tw::alltoall(world(), std::vector<at::Tensor>(), {}), tw::ContractError);
  EXPECT_THROW(tw::broadcast(world(), torch::ones({3}), tw::Rank(world().size())), tw::ContractError);
  EXPECT_THROW(tw::allreduce(world(), torch::ones({3}).to_sparse(), ReduceOp::sum), tw::ContractError);
  const auto refusal = [](ReduceOp op, at::ScalarType dtype) { return message_of([&] { tw::allreduce(world(), torch::zeros({2}, dtype), op); }); };
  EXPECT_NE(refusal(ReduceOp::average, at::kInt).find("average is not defined for int32: it would be rounded"), std::string::npos);
  EXPECT_NE(refusal(ReduceOp::sum, at::kBool).find("sum is not defined for bool: use logical_or"), std::string::npos);
  EXPECT_NE(refusal(ReduceOp::max, at::kComplexFloat).find("complex numbers have no order"), std::string::npos);
}

}  // namespace collective_calls_test
