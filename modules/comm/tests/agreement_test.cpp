// SPDX-License-Identifier: Apache-2.0
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <c10/util/Exception.h>

#include <memory>
#include <tw/base/contract.hpp>
#include <tw/base/process.hpp>
#include <tw/comm.hpp>
#include <tw/mpi/error.hpp>

namespace agreement_test {

using tw::RankFailure;
using tw::testing::message_of;
using tw::testing::world;

int mine() { return world().rank(); }
int last() { return world().size() - 1; }

/// The beginning of a message about an error on `rank` alone.
std::string failed_on(int rank) {
  return last() == 0 ? std::string("counting failed: ") : tw::concat("counting failed on rank ", rank, " of 'world/dup': ");
}

TEST(OnAllRanks, GivesEachRankItsOwn) {
  EXPECT_EQ(tw::on_all_ranks(world(), "counting", [] { return mine(); }), mine());
  const std::unique_ptr<int> made = tw::on_all_ranks(world(), "counting", [] { return std::make_unique<int>(mine()); });
  EXPECT_EQ(*made, mine());
  bool done = false;
  tw::on_all_ranks(world(), "counting", [&] { done = true; });
  EXPECT_TRUE(done);
}

TEST(OnAllRanks, ThrowsOnAllWhatOneThrows) {
  for (int odd = 0; odd <= last(); ++odd) {
    const auto call = [&] {
      (void)tw::on_all_ranks(world(), "counting", [&] {
        if (mine() == odd) throw tw::Error("no numbers left");
        return 1;
      });
    };
    EXPECT_EQ(message_of<tw::Error>(call), failed_on(odd) + "no numbers left");
  }
  world().barrier();  // works as before
}

TEST(OnAllRanks, ABugOfACallerRemainsOneOnAll) {
  for (int odd = 0; odd <= last(); ++odd) {
    const auto call = [&] { tw::on_all_ranks(world(), "counting", [&] { TW_EXPECTS(mine() != odd, "got ", odd); }); };
    const std::string message = message_of<tw::ContractError>(call);
    EXPECT_EQ(message.find(failed_on(odd) + tw::concat("got ", odd, " [agreement_test.cpp:")), 0U) << message;
  }
}

TW_TEST_ON(OnAllRanks, IsOfTheKindOfTheFirst, {.least = 2}) {
  const auto contract_on = [](int odd) {
    tw::on_all_ranks(world(), "counting", [&] {
      if (mine() == odd) throw tw::ContractError("a bug");
      throw tw::Error("an error");
    });
  };
  EXPECT_EQ(message_of<tw::ContractError>([&] { contract_on(0); }), "counting failed on every rank of 'world/dup': rank 0: a bug");
  EXPECT_EQ(message_of<tw::Error>([&] { contract_on(last()); }), "counting failed on every rank of 'world/dup': rank 0: an error");
}

TEST(OnAllRanks, WhoWasReleasedIsNoCause) {
  const auto call = [] {
    tw::on_all_ranks(world(), "counting", [] {
      if (mine() == last()) throw tw::Error("the cause");
      throw tw::RevokedError("a trial", "a broadcast", "elsewhere");
    });
  };
  EXPECT_EQ(message_of<tw::Error>(call), failed_on(last()) + "the cause");
  const auto all_released = [] { tw::on_all_ranks(world(), "counting", [] { throw tw::RevokedError("a trial", "a broadcast", "elsewhere"); }); };
  EXPECT_NE(message_of<tw::Error>(all_released).find("elsewhere"), std::string::npos);
}

TEST(OnAllRanks, TakesWhateverIsThrown) {
  const auto message = [](const auto& thrown) {
    return message_of<tw::Error>([&] {
      tw::on_all_ranks(world(), "counting", [&] {
        if (mine() == last()) throw thrown;
      });
    });
  };
  EXPECT_EQ(message(42), failed_on(last()) + "an exception that is not a std::exception");
  EXPECT_EQ(message(std::runtime_error("")), failed_on(last()) + "an exception without a message");
  EXPECT_EQ(message(std::logic_error("of the standard library")), failed_on(last()) + "of the standard library");
  EXPECT_EQ(message(tw::FileError("a.txt", 7, "is cut")), failed_on(last()) + "a.txt at byte 7: is cut");
  const c10::Error of_torch({"agreement_test", "here", 1}, "of LibTorch");
  EXPECT_EQ(message(of_torch), failed_on(last()) + of_torch.what_without_backtrace());
}

TW_TEST_ON(OnAllRanks, OneRankAloneNeedsNoCommunicator, {.most = 1}) {
  const tw::Communicator alone = world().dup();
  alone.revoke("nothing can be sent");
  EXPECT_EQ(tw::on_all_ranks(alone, "counting", [] { return 3; }), 3);
  EXPECT_EQ(message_of<tw::Error>([&] { tw::on_all_ranks(alone, "counting", [] { throw tw::Error("no"); }); }), "counting failed: no");
}

TEST(FailuresOnAllRanks, AreTheSameOnAll) {
  EXPECT_TRUE(tw::failures_on_all_ranks(world(), [] {}).empty());
  const auto failures = tw::failures_on_all_ranks(world(), [] {
    if (mine() == 0) throw tw::ContractError("a bug");
    if (mine() == 1) throw tw::RevokedError("a trial", "a broadcast", "elsewhere");
    if (mine() == 2) throw tw::Error("");
  });
  std::vector<RankFailure> expected{{0, RankFailure::Kind::contract, "a bug"}};
  const std::string released = tw::without_process_label(tw::RevokedError("a trial", "a broadcast", "elsewhere").what());
  if (last() >= 1) expected.push_back({1, RankFailure::Kind::consequence, released});
  if (last() >= 2) expected.push_back({2, RankFailure::Kind::error, "an exception without a message"});
  EXPECT_EQ(failures, expected);
}

TEST(Agreement, IsSilentWhereAllAgree) {
  EXPECT_NO_THROW(tw::expect_same_on_all_ranks(world(), "the list", {"a", "b"}));
  EXPECT_NO_THROW(tw::expect_same_on_all_ranks(world(), "the list", {}));
}

TEST(Agreement, NamesTheRanksAndTheFirstDifferenceOnEveryRank) {
  for (int odd = 1; odd <= last(); ++odd) {
    std::vector<std::string> lines{"a", "b", "c"};
    if (mine() == odd) lines[1] = "B";
    const std::string message = message_of<tw::ContractError>([&] { tw::expect_same_on_all_ranks(world(), "the list", lines); });
    EXPECT_NE(message.find(tw::concat("the list must be the same on all ranks of 'world/dup': rank ", odd, " has 'B' where rank 0 has 'b' [")),
              std::string::npos)
        << message;
  }
}

TW_TEST_ON(Agreement, NamesWhatIsMissing, {.least = 2}) {  // a single rank agrees with itself
  std::vector<std::string> lines{"a"};
  if (world().rank() == 0) lines.push_back("b");
  const std::string message = message_of<tw::ContractError>([&] { tw::expect_same_on_all_ranks(world(), "the list", lines); });
  for (int rank = 1; rank <= last(); ++rank) {
    EXPECT_NE(message.find(tw::concat("rank ", rank, " has nothing more where rank 0 has 'b'")), std::string::npos) << message;
  }
}

}  // namespace agreement_test
