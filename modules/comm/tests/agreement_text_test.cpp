// SPDX-License-Identifier: Apache-2.0
#include "agreement_text.hpp"

#include <gtest/gtest.h>

#include <tw/base/concat.hpp>

namespace agreement_text_test {

using tw::RankFailure;
using Failures = std::vector<RankFailure>;
using enum RankFailure::Kind;

TEST(CausesOf, DropsConsequencesWhereSomebodyKnowsMore) {
  const RankFailure released{0, consequence, "revoked"};
  const RankFailure broken{1, error, "broken"};
  const RankFailure wrong{2, contract, "wrong"};
  EXPECT_EQ(tw::causes_of({released, broken, wrong}), (Failures{broken, wrong}));
  EXPECT_EQ(tw::causes_of({released}), Failures{released});
  EXPECT_EQ(tw::causes_of({}), Failures{});
}

TEST(FailureText, NamesRanksAndSaysWhatTheFirstSaid) {
  EXPECT_EQ(tw::failure_text("reading", {{2, error, "no file"}}, 4, "world"), "reading failed on rank 2 of 'world': no file");
  EXPECT_EQ(tw::failure_text("reading", {{1, error, "no file"}, {3, error, "no file"}}, 4, "world"),
            "reading failed on ranks 1, 3 of 'world': no file");
  EXPECT_EQ(tw::failure_text("reading", {{1, error, "no file"}, {3, error, "no disk"}}, 4, "world"),
            "reading failed on ranks 1, 3 of 'world': rank 1: no file");
  EXPECT_EQ(tw::failure_text("reading", {{0, error, "no file"}, {1, error, "no disk"}}, 2, "world"),
            "reading failed on every rank of 'world': rank 0: no file");
}

TEST(FailureText, NamesNoRankWhereAllFailAlike) {
  EXPECT_EQ(tw::failure_text("reading", {{0, error, "no file"}, {1, error, "no file"}}, 2, "world"), "reading failed: no file");
  EXPECT_EQ(tw::failure_text("reading", {{0, error, "no file"}}, 1, "world"), "reading failed: no file");
}

TEST(FailureText, NamesEightRanksOfMany) {
  Failures failures;
  for (int rank = 10; rank < 18; ++rank) failures.push_back({rank, error, "no file"});
  EXPECT_EQ(tw::failure_text("reading", failures, 100, "world"), "reading failed on ranks 10, 11, 12, 13, 14, 15, 16, 17 of 'world': no file");
  failures.push_back({90, error, "no file"});
  EXPECT_EQ(tw::failure_text("reading", failures, 100, "world"),
            "reading failed on ranks 10, 11, 12, 13, 14, 15, 16, 17 and 1 more of 'world': no file");
}

TEST(DifferencesText, HasTheFirstDifferenceOfEachRank) {
  EXPECT_EQ(tw::differences_text({"a\nb\n", "a\nb\n"}), "");
  EXPECT_EQ(tw::differences_text({"a\nb\nc\n", "a\nB\nC\n", "a\nb\nc\n", "a\nb\n", "a\nb\nc\nd\n"}),
            "rank 1 has 'B' where rank 0 has 'b'; rank 3 has nothing more where rank 0 has 'c'; rank 4 has 'd' where rank 0 has nothing more");
}

TEST(DifferencesText, NamesEightRanksOfMany) {
  std::vector<std::string> texts(9, "odd\n");
  texts[0] = "usual\n";
  const auto of = [](size_t rank) { return tw::concat("rank ", rank, " has 'odd' where rank 0 has 'usual'"); };
  std::string expected = of(1);
  for (size_t rank = 2; rank < 9; ++rank) expected += "; " + of(rank);
  EXPECT_EQ(tw::differences_text(texts), expected);
  texts.insert(texts.end(), 3, "odd\n");
  EXPECT_EQ(tw::differences_text(texts), expected + "; and 3 more ranks differ from rank 0");
}

}  // namespace agreement_text_test
