// SPDX-License-Identifier: Apache-2.0
// On an audited communicator a mismatch is an error on every rank, in every build. This file makes the Environment itself, to enable the audit.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/comm.hpp>

namespace {

const tw::Communicator* audited = nullptr;

// The error that all ranks receive for a call that differs on the last rank.
template <class Usual, class Odd>
void expect_mismatch(Usual usual, Odd odd, const std::string& odd_call, const std::string& usual_call) {
  const int last = audited->size() - 1;
  if (last == 0) GTEST_SKIP() << "one rank agrees with itself";
  try {
    if (audited->rank() == last) {
      odd();
    } else {
      usual();
    }
    ADD_FAILURE() << "no exception";
  } catch (const tw::ContractError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(tw::concat("rank ", last, " has '", odd_call, "' where rank 0 has '", usual_call, "'")), std::string::npos) << text;
  }
}

void sum_over_ranks(const at::Tensor& tensor) { tw::allreduce(*audited, tensor, tw::ReduceOp::sum); }

TEST(Audit, IsOnForThisCommunicator) {
  EXPECT_TRUE(audited->audited());
  EXPECT_TRUE(audited->dup().audited());
}

TEST(Audit, FindsOtherShapes) {
  expect_mismatch([] { sum_over_ranks(torch::ones({4})); }, [] { sum_over_ranks(torch::ones({8})); }, "allreduce sum of 8 float32 [8]",
                  "allreduce sum of 4 float32 [4]");
}

TEST(Audit, FindsOtherDtypes) {
  expect_mismatch([] { sum_over_ranks(torch::ones({4})); }, [] { sum_over_ranks(torch::ones({4}, torch::kDouble)); },
                  "allreduce sum of 4 float64 [4]", "allreduce sum of 4 float32 [4]");
}

TEST(Audit, FindsOtherOperations) {
  expect_mismatch([] { sum_over_ranks(torch::ones({4})); }, [] { tw::allreduce(*audited, torch::ones({4}), tw::ReduceOp::max); },
                  "allreduce max of 4 float32 [4]", "allreduce sum of 4 float32 [4]");
  expect_mismatch([] { sum_over_ranks(torch::ones({4})); }, [] { tw::broadcast(*audited, torch::ones({4}), tw::Rank(0)); },
                  "broadcast from rank 0 of 4 float32 [4]", "allreduce sum of 4 float32 [4]");
}

TEST(Audit, FindsOtherRoots) {
  expect_mismatch([] { tw::broadcast(*audited, torch::ones({4}), tw::Rank(0)); }, [] { tw::broadcast(*audited, torch::ones({4}), tw::Rank(1)); },
                  "broadcast from rank 1 of 4 float32 [4]", "broadcast from rank 0 of 4 float32 [4]");
}

TEST(Audit, FindsOtherOperationsOfAnyKind) {
  const at::Tensor all = torch::ones({audited->size(), 2});
  expect_mismatch([&] { tw::alltoall(*audited, all, all.clone()); }, [&] { tw::reduce_scatter(*audited, all, torch::ones({2}), tw::ReduceOp::min); },
                  tw::concat("reduce_scatter min of ", all.numel(), " float32 [", audited->size(), ", 2]"),
                  tw::concat("alltoall of ", all.numel(), " float32 [", audited->size(), ", 2]"));
  const std::vector<at::Tensor> one_each(static_cast<size_t>(audited->size()), all);
  expect_mismatch([&] { tw::gather(*audited, all, one_each, tw::Rank(0)); }, [&] { tw::gather(*audited, all, one_each, tw::Rank(1)); },
                  "gather to rank 1 of 0 float32", "gather to rank 0 of 0 float32");
}

TEST(Audit, FindsAGroupOfWhichTheLastCallDiffersAndGoesOn) {
  const auto sum = [](int64_t doubles) { tw::allreduce(*audited, {torch::ones({4}), torch::ones({doubles}, torch::kDouble)}, tw::ReduceOp::sum); };
  expect_mismatch([&] { sum(3); }, [&] { sum(5); }, "allreduce sum of 5 float64 [5]", "allreduce sum of 3 float64 [3]");
  const at::Tensor count = torch::ones({2});
  sum_over_ranks(count);
  EXPECT_EQ(count[0].item<int>(), audited->size());
}

TEST(Audit, FindsABarrierThatMeetsAnotherCall) {
  expect_mismatch([] { tw::barrier(*audited); }, [] { sum_over_ranks(torch::ones({4})); }, "allreduce sum of 4 float32 [4]", "barrier");
}

// A late rank delays only the call that it is late for. Programs whose ranks use two communicators in different orders are correct.
TEST(Audit, HoldsUpNoOtherCommunicator) {
  const tw::Communicator even = audited->dup();
  const tw::Communicator odd = audited->dup();
  const at::Tensor count = torch::ones({4});
  const at::Tensor sum = torch::full({4}, static_cast<double>(audited->rank()));
  const auto counts = [&] { return tw::iallreduce(even, count, tw::ReduceOp::sum); };
  const auto sums = [&] { return tw::iallreduce(odd, sum, tw::ReduceOp::sum); };
  const bool swaps = audited->rank() % 2 == 1;
  tw::Work first = swaps ? sums() : counts();
  tw::Work second = swaps ? counts() : sums();
  second.wait();
  first.wait();
  EXPECT_EQ(count[0].item<int>(), audited->size());
  EXPECT_EQ(sum[0].item<int>(), audited->size() * (audited->size() - 1) / 2);
}

TEST(Audit, HoldsUpNoMessages) {
  if (audited->size() == 1) GTEST_SKIP() << "on one rank there are none";
  const at::Tensor own = torch::full({2}, static_cast<double>(audited->rank()));
  std::vector<at::Tensor> all(static_cast<size_t>(audited->size()));
  for (at::Tensor& each : all) each = torch::zeros({2});
  const at::Tensor token = torch::zeros({1});
  if (audited->rank() == 1) tw::recv(*audited, token, tw::Rank(0));  // arrives after rank 0 has started to gather
  tw::Work gathered = tw::igather(*audited, own, audited->rank() == 0 ? all : std::vector<at::Tensor>(), tw::Rank(0));
  if (audited->rank() == 0) tw::send(*audited, token, tw::Rank(1));
  gathered.wait();
  if (audited->rank() == 0) {
    EXPECT_EQ(all.back()[0].item<int>(), audited->size() - 1);
  }
}

TEST(Audit, FindsATensorThatIsChangedInFlight) {
  if (audited->size() == 1) GTEST_SKIP() << "on one rank nothing is in flight";
  const at::Tensor tensor = torch::zeros({4});
  if (audited->rank() == 0) {
    tw::Work work = tw::irecv(*audited, tensor, tw::Rank(1));
    tensor.add_(1);
    tw::send(*audited, torch::ones({1}), tw::Rank(1), tw::Tag(1));  // rank 1 may send only now
    EXPECT_THROW(work.wait(), tw::ContractError);
  } else if (audited->rank() == 1) {
    tw::recv(*audited, torch::zeros({1}), tw::Rank(0), tw::Tag(1));
    tw::send(*audited, tensor, tw::Rank(0));
  }
  const at::Tensor left_alone = torch::ones({4});
  EXPECT_NO_THROW(tw::iallreduce(*audited, left_alone, tw::ReduceOp::sum).wait());
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const tw::Environment mpi(argc, argv, {.audit = true});
  const tw::Communicator comm = mpi.world().dup();
  audited = &comm;
  return RUN_ALL_TESTS();
}
