// SPDX-License-Identifier: Apache-2.0
#include "mpi_test.hpp"

#include <tw/comm.hpp>

namespace agreement_test {

using tw::testing::world;

TEST(Agreement, IsSilentWhereAllAgree) {
  EXPECT_NO_THROW(tw::expect_same_on_all_ranks(world(), "the list", {"a", "b"}));
  EXPECT_NO_THROW(tw::expect_same_on_all_ranks(world(), "the list", {}));
}

TEST(Agreement, NamesTheRanksAndTheFirstDifferenceOnEveryRank) {
  const int last = world().size() - 1;
  std::vector<std::string> lines{"a", "b", "c"};
  if (world().rank() == last) lines[1] = "B";
  if (last == 0) {
    EXPECT_NO_THROW(tw::expect_same_on_all_ranks(world(), "the list", lines));
    return;
  }
  try {
    tw::expect_same_on_all_ranks(world(), "the list", lines);
    ADD_FAILURE() << "no exception";
  } catch (const tw::ContractError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(tw::concat("the list must be the same on all ranks of 'world/dup': rank ", last, " has 'B' where rank 0 has 'b'")),
              std::string::npos)
        << text;
  }
}

TEST(Agreement, NamesWhatIsMissing) {
  if (world().size() == 1) return;  // one rank agrees with itself
  std::vector<std::string> lines{"a"};
  if (world().rank() == 0) lines.push_back("b");
  try {
    tw::expect_same_on_all_ranks(world(), "the list", lines);
    ADD_FAILURE() << "no exception";
  } catch (const tw::ContractError& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1 has nothing more where rank 0 has 'b'"), std::string::npos) << error.what();
  }
}

}  // namespace agreement_test
