// SPDX-License-Identifier: Apache-2.0
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <cmath>
#include <thread>
#include <tw/base/concat.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/search/check_objective.hpp>

namespace tw::search {
namespace check_objective_test {

using testing::world;

Space line() { return {real("x", 1, 2)}; }

double sum(const Communicator& comm, double value) {
  mpi::allreduce(comm, {&value, 1, ElementType::float64}, ReduceOp::sum);
  return value;
}

/// All that is found, the same on all ranks.
std::string problems_of(const Space& space, const Objective& objective) {
  std::string all;
  for (const std::string& each : check_objective(world(), space, objective).problems) all += each + '\n';
  EXPECT_TRUE(all_agree(world(), all));
  return all;
}

void expect_found(const Objective& objective, const std::string& problem) {
  const std::string all = problems_of(line(), objective);
  EXPECT_NE(all.find(problem), std::string::npos) << all << "lacks: " << problem;
}

TEST(CheckObjective, FindsNothingWhereNothingIsWrong) {
  const Objective good = [](const Configuration& c, Trial& trial) -> Outcome {
    trial.report(1, c.real("x"));
    trial.report(2, 0.5 * c.real("x"));
    return sum(trial.comm(), c.real("x")) + trial.rng()();  // random, but of the trial
  };
  EXPECT_EQ(problems_of(line(), good), "");
}

TEST(CheckObjective, FindsWhatIsNoFunctionOfTheTrial) {
  int calls = 0;
  expect_found([&](const Configuration& c, Trial&) { return Outcome(c.real("x") + ++calls); }, "when it is repeated");
  expect_found(
      [&](const Configuration& c, Trial& trial) {
        trial.report(1, ++calls);
        return Outcome(c.real("x"));
      },
      " at step 1, but ");
  expect_found(
      [&](const Configuration& c, Trial& trial) {
        if (++calls % 2 == 0) trial.report(1, 0);
        return Outcome(c.real("x"));
      },
      "times when it is repeated");
}

TEST(CheckObjective, FindsWhatIsNotFinite) {
  expect_found([](const Configuration& /*c*/, Trial&) { return Outcome(NAN); }, "failed: the loss is nan");
  expect_found([](const Configuration& c, Trial& trial) { return Outcome(trial.report(7, INFINITY) ? c.real("x") : 0); }, "reports inf at step 7");
}

TEST(CheckObjective, FindsWhatThrowsAnywhere) {
  expect_found(
      [](const Configuration& c, Trial& trial) -> Outcome {
        if (trial.comm().rank() == trial.comm().size() - 1) throw std::runtime_error("out of luck");
        return sum(trial.comm(), c.real("x"));
      },
      "out of luck");
}

TEST(CheckObjective, SaysWhereNothingIsFeasible) {
  Space space = line();
  space.require("never", [](const Configuration&) { return false; });
  EXPECT_EQ(problems_of(space, [](const Configuration&, Trial&) { return Outcome(1); }), "random configurations violate the constraint 'never'\n");
}

/// The slowest takes as long as it says, the mean lies below it, and all ranks say the same.
TEST(CheckObjective, SaysWhatItCosts) {
  const Objective slow = [](const Configuration& c, Trial& trial) {
    if (trial.number() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return Outcome(c.real("x"));
  };
  const ObjectiveCheck check = check_objective(world(), line(), slow, {.configurations = 2});
  EXPECT_GE(check.slowest_seconds, 0.05);
  EXPECT_GE(check.seconds, 0.025);
  EXPECT_LT(check.seconds, check.slowest_seconds);
  EXPECT_TRUE(all_agree(world(), concat(check.seconds, ' ', check.slowest_seconds)));
}

TEST(CheckObjective, RefusesWrongOptions) {
  const Objective good = [](const Configuration&, Trial&) { return Outcome(1); };
  EXPECT_NE(testing::message_of([&] { check_objective(world(), line(), good, {.configurations = 0}); }).find("configurations must be at least 1"),
            std::string::npos);
}

}  // namespace check_objective_test
}  // namespace tw::search
