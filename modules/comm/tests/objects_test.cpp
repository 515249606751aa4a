// SPDX-License-Identifier: Apache-2.0
#include "mpi_test.hpp"

#include <tw/comm.hpp>

namespace objects_test {

using tw::testing::world;

/// The texts that ranks send, of one kind.
struct Kind {
  std::string name;
  std::string (*text)(int rank);
};

const std::vector<Kind> kinds{
    {"empty", [](int) { return std::string(); }},
    {"short", [](int rank) { return "from rank " + std::to_string(rank); }},
    {"empty on every second rank", [](int rank) { return rank % 2 == 0 ? std::string() : std::string("odd"); }},
    {"binary with zeros", [](int rank) { return std::string("a\0\xff\n\0", 5) + std::string(static_cast<size_t>(rank), '\0'); }},
    {"long, of lengths of their own", [](int rank) {
       std::string text(static_cast<size_t>(1000003 + 70001 * rank), 'x');
       for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>((i * 31 + static_cast<size_t>(rank)) % 251);
       return text;
     }}};

std::vector<std::string> texts_of_all(const Kind& kind) {
  std::vector<std::string> texts;
  for (int rank = 0; rank < world().size(); ++rank) texts.push_back(kind.text(rank));
  return texts;
}

// Compares without printing a million characters.
void expect_same(const std::vector<std::string>& got, const std::vector<std::string>& expected, const std::string& what) {
  EXPECT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    EXPECT_EQ(got[i].size(), expected[i].size()) << what << ", " << i;
    EXPECT_TRUE(got[i] == expected[i]) << what << ", " << i;
  }
}

TEST(AllgatherStrings, GivesEveryRankAllInRankOrder) {
  for (const Kind& kind : kinds) expect_same(tw::allgather_strings(world(), kind.text(world().rank())), texts_of_all(kind), kind.name);
}

TEST(GatherStrings, GivesTheRootAllInRankOrderAndTheOthersNothing) {
  for (const Kind& kind : kinds) {
    for (int root = 0; root < world().size(); ++root) {
      const auto gathered = tw::gather_strings(world(), kind.text(world().rank()), tw::Rank(root));
      expect_same(gathered, world().rank() == root ? texts_of_all(kind) : std::vector<std::string>(), kind.name);
    }
  }
}

TEST(ScatterStrings, GivesEveryRankItsOwn) {
  for (const Kind& kind : kinds) {
    for (int root = 0; root < world().size(); ++root) {
      const bool sends = world().rank() == root;
      const std::string mine = tw::scatter_strings(world(), sends ? texts_of_all(kind) : std::vector<std::string>(), tw::Rank(root));
      expect_same({mine}, {kind.text(world().rank())}, kind.name);
    }
  }
}

TEST(BroadcastString, GivesEveryRankTheRoots) {
  for (const Kind& kind : kinds) {
    for (int root = 0; root < world().size(); ++root) {
      const std::string mine = world().rank() == root ? kind.text(root) : "ignored, and of another length";
      expect_same({tw::broadcast_string(world(), mine, tw::Rank(root))}, {kind.text(root)}, kind.name);
    }
  }
}

struct Named {
  std::string name;
  std::vector<int> numbers;
  static constexpr auto fields = std::tuple(&Named::name, &Named::numbers);
  bool operator==(const Named&) const = default;
};

TEST(TypedObjects, ArriveAsTheyWere) {
  const auto of = [](int rank) { return Named{std::string(static_cast<size_t>(rank), 'x'), std::vector<int>(static_cast<size_t>(rank), rank)}; };
  std::vector<Named> expected;
  for (int rank = 0; rank < world().size(); ++rank) expected.push_back(of(rank));
  const tw::Rank last(world().size() - 1);
  EXPECT_EQ(tw::allgather_objects(world(), of(world().rank())), expected);
  EXPECT_EQ(tw::gather_objects(world(), of(world().rank()), last), world().rank() == last ? expected : std::vector<Named>());
  EXPECT_EQ(tw::broadcast_object(world(), of(world().rank()), last), expected.back());
}

TEST(AllAgree, IsTrueOnEveryRankWhereAllSayTheSame) {
  for (const Kind& kind : kinds) EXPECT_TRUE(tw::all_agree(world(), kind.text(7))) << kind.name;
}

TEST(AllAgree, IsFalseOnEveryRankWhereOneDiffers) {
  for (const Kind& kind : kinds) {
    for (int odd = 0; odd < world().size(); ++odd) {
      const std::string usual = kind.text(7);
      const std::string mine = world().rank() == odd ? usual + '\0' : usual;
      EXPECT_EQ(tw::all_agree(world(), mine), world().size() == 1) << kind.name;
    }
  }
}

TW_TEST_ON(AllAgree, LooksAtMoreThanRankZero, {.least = 3}) {
  EXPECT_FALSE(tw::all_agree(world(), world().rank() == 0 ? "a" : "b"));
  EXPECT_FALSE(tw::all_agree(world(), std::to_string(int{world().rank()})));
}

TEST(Strings, RefuseARootThatIsNoRank) {
  for (const int root : {-1, world().size()}) {
    EXPECT_THROW(tw::gather_strings(world(), "text", tw::Rank(root)), tw::ContractError) << root;
    EXPECT_THROW(tw::broadcast_string(world(), "text", tw::Rank(root)), tw::ContractError) << root;
  }
  expect_same(tw::allgather_strings(world(), "text"), std::vector<std::string>(static_cast<size_t>(world().size()), "text"), "afterwards");
}

TEST(Strings, RefuseAListOfTheRootThatIsTooShortOrTooLong) {
  for (const int wrong : {0, world().size() + 1}) {
    const bool sends = world().rank() == 0;
    const std::vector<std::string> texts(static_cast<size_t>(sends ? wrong : world().size()), "text");
    EXPECT_THROW(tw::scatter_strings(world(), texts, tw::Rank(0)), tw::ContractError) << wrong;
  }
}

}  // namespace objects_test
