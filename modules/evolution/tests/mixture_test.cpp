// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <tw/base/error.hpp>
#include <tw/evolution/mixture.hpp>

#include "minimize.hpp"

namespace tw::search {
namespace mixture_test {

const Space line{real("x", 0, 1)};

/// Proposes 2, which nothing breeds, and counts.
class Other final : public Propagator {
 public:
  explicit Other(int& told) : told_(told) {}
  Proposal ask(const Population& /*population*/, CounterRng& /*random*/) override { return {.values = {2}, .tag = {.run = 7}}; }
  void tell(const Individual& individual) override {
    EXPECT_EQ(individual.values, std::vector{2.0});
    EXPECT_EQ(individual.tag.run, 7);
    ++told_;
  }

 private:
  int& told_;
};

TEST(Mixture, BreedsItsShareAndTellsTheOtherOfItsOwnAlone) {
  for (const double bred : {0.0, 0.3, 1.0}) {
    int told = 0;
    Mixture mixture(Breeder(line), std::make_unique<Other>(told), bred);
    int others = 0;
    for (uint64_t trial = 0; trial < 5000; ++trial) {
      CounterRng random(1, trial);
      const Proposal proposal = mixture.ask({}, random);
      others += proposal.values[0] == 2 ? 1 : 0;
      mixture.tell(evaluated(proposal, 1.0));
      ASSERT_EQ(told, others);
    }
    EXPECT_NEAR(others, 5000 * (1 - bred), 6 * std::sqrt(5000 * bred * (1 - bred)));
  }
}

TEST(Mixture, RefusesWhatIsWrong) {
  int told = 0;
  EXPECT_THROW(Mixture(Breeder(line), nullptr, 0.5), ContractError);
  EXPECT_THROW(Mixture(Breeder(line), std::make_unique<Other>(told), 1.5), ContractError);
  EXPECT_THROW(Mixture(Breeder(line), std::make_unique<Other>(told), NAN), ContractError);
}

}  // namespace mixture_test
}  // namespace tw::search
