// SPDX-License-Identifier: Apache-2.0
// On an audited communicator a mismatch is an error on every rank, in whichever build. The Environment is made here, to switch auditing on.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/comm.hpp>

namespace {

const tw::Communicator* audited = nullptr;

// What all ranks of a call that differs on the last rank must hear.
template <class Usual, class Odd>
void expect_mismatch(Usual usual, Odd odd, const std::string& odd_call, const std::string& usual_call) {
  const int last = audited->size() - 1;
  if (last == 0) return;  // one rank agrees with itself
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
  expect_mismatch([] { sum_over_ranks(torch::ones({4})); }, [] { sum_over_ranks(torch::ones({8})); }, "allreduce sum of float32 [8]",
                  "allreduce sum of float32 [4]");
}

TEST(Audit, FindsOtherDtypes) {
  expect_mismatch([] { sum_over_ranks(torch::ones({4})); }, [] { sum_over_ranks(torch::ones({4}, torch::kDouble)); }, "allreduce sum of float64 [4]",
                  "allreduce sum of float32 [4]");
}

TEST(Audit, FindsOtherOperations) {
  expect_mismatch([] { sum_over_ranks(torch::ones({4})); }, [] { tw::allreduce(*audited, torch::ones({4}), tw::ReduceOp::max); },
                  "allreduce max of float32 [4]", "allreduce sum of float32 [4]");
  expect_mismatch([] { sum_over_ranks(torch::ones({4})); }, [] { tw::broadcast(*audited, torch::ones({4}), tw::Rank(0)); },
                  "broadcast from root 0 of float32 [4]", "allreduce sum of float32 [4]");
}

TEST(Audit, FindsOtherRoots) {
  expect_mismatch([] { tw::broadcast(*audited, torch::ones({4}), tw::Rank(0)); }, [] { tw::broadcast(*audited, torch::ones({4}), tw::Rank(1)); },
                  "broadcast from root 1 of float32 [4]", "broadcast from root 0 of float32 [4]");
}

TEST(Audit, FindsATensorThatIsChangedInFlight) {
  const at::Tensor tensor = torch::ones({4});
  tw::Work work = tw::iallreduce(*audited, tensor, tw::ReduceOp::sum);
  tensor.add_(1);
  EXPECT_THROW(work.wait(), tw::ContractError);
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
