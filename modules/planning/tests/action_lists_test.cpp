// SPDX-License-Identifier: Apache-2.0
// Action lists with collectives of groups of ranks: the checker accepts what runs, and names the ranks and actions of each deadlock.
#include <gtest/gtest.h>

#include <ctime>
#include <tw/base/concat.hpp>
#include <tw/planning/schedule.hpp>

#include "action_oracles.hpp"

namespace tw::pipeline {
namespace action_lists_test {

using test::Kind;

using Problems = std::vector<std::string>;

constexpr RankAction gather(int group, int sequence = 0) { return {.kind = Kind::gather, .group = group, .sequence = sequence}; }
constexpr RankAction reduce(int group, int sequence = 0) { return {.kind = Kind::reduce, .group = group, .sequence = sequence}; }
constexpr RankAction send(int to, int sequence = 0) { return {.kind = Kind::send, .peer = to, .sequence = sequence}; }
constexpr RankAction receive(int from, int sequence = 0) { return {.kind = Kind::receive, .peer = from, .sequence = sequence}; }

TEST(ActionLists, ProblemsNameRanksAndActions) {
  const std::vector<std::vector<int>> pairs{{0, 1}, {1, 2}, {0, 2}};
  const auto problems = [&](const std::vector<std::vector<RankAction>>& ranks) { return problems_of({pairs, ranks}); };
  EXPECT_EQ(problems({{gather(0), reduce(2)}, {gather(0), gather(1)}, {gather(1), reduce(2)}}), Problems{});
  EXPECT_EQ(problems({{gather(0), reduce(2)}, {gather(1), gather(0)}, {reduce(2), gather(1)}}),
            Problems{"ranks wait for each other: rank 0 at action 0, gather 0 of group 0, waits for rank 1; rank 1 at action 0, gather 0 of group 1, "
                     "waits for rank 2; rank 2 at action 0, reduce 0 of group 2, waits for rank 0"});
  EXPECT_EQ(problems({{gather(0, 0), gather(0, 1)}, {gather(0, 1), gather(0, 0)}, {}}),
            Problems{"ranks wait for each other: rank 0 at action 0, gather 0 of group 0, waits for rank 1; rank 1 at action 0, gather 1 of group 0, "
                     "waits for rank 0"});
  EXPECT_EQ(problems({{gather(0), reduce(2)}, {gather(1)}, {gather(1), reduce(2)}}),
            Problems{"rank 0 at action 0, gather 0 of group 0, waits for ever for rank 1, which never takes part"})
      << "rank 2 waits only because rank 0 does";
  EXPECT_EQ(
      problems({{receive(1), gather(0)}, {gather(0), send(0)}, {}}),
      Problems{"ranks wait for each other: rank 0 at action 0, receive of message 0 from rank 1, waits for rank 1; rank 1 at action 0, gather 0 "
               "of group 0, waits for rank 0"});
  EXPECT_EQ(problems({{receive(1, 1), receive(1, 0)}, {send(0, 0), send(0, 1)}, {}}),
            Problems{"rank 0 at action 0, receive of message 1 from rank 1, waits for ever: message 0 comes first"});
  EXPECT_EQ(problems({{receive(2)}, {}, {}}), Problems{"rank 0 at action 0, receive of message 0 from rank 2, waits for ever for rank 2, which never "
                                                       "takes part"});
}

TEST(ActionLists, AreCheckedBeforeTheyRun) {
  const auto problems = [](const std::vector<std::vector<RankAction>>& ranks) { return problems_of({{{0, 1}, {1, 2}}, ranks}); };
  EXPECT_EQ(problems({{gather(0)}, {reduce(0)}, {}}), Problems{"rank 1: the reduce 0 of group 0 has another kind on rank 0"});
  EXPECT_EQ(problems({{gather(1)}, {}, {}}), Problems{"rank 0: the rank is not in the group, but its list has the gather 0 of group 1"});
  EXPECT_EQ(problems({{gather(2)}, {}, {}}), Problems{"rank 0: there is no such group: gather 0 of group 2"});
  EXPECT_EQ(problems({{send(0)}, {send(3)}, {}}), (Problems{"rank 0: the peer must be another rank: send of message 0 to rank 0",
                                                            "rank 1: the peer must be another rank: send of message 0 to rank 3"}));
  EXPECT_EQ(problems({{send(1)}, {}, {}}), Problems{"rank 1 never receives message 0 from rank 0"});
  EXPECT_EQ(problems({{gather(0), reduce(0)}, {gather(0)}, {}}).front(), "rank 0: the reduce 0 of group 0 occurs twice");
  const RankAction forward{.kind = Kind::forward, .stage = 1};
  const RankAction backward{.kind = Kind::backward, .stage = 1};
  EXPECT_EQ(problems({{forward, backward}, {forward, backward}, {}}), Problems{}) << "replicas of a stage";
  EXPECT_EQ(problems({{backward, forward}, {}, {}}), Problems{"rank 0: the backward pass of micro-batch 0 on stage 1 precedes its forward pass"});
  EXPECT_EQ(problems({{forward, forward}, {}, {}}), Problems{"rank 0: the forward pass of micro-batch 0 on stage 1 occurs twice"});
  EXPECT_EQ(problems_of({{{0, 0}, {0, 7}}, {{}}}), (Problems{"group 0 names a rank twice", "group 1 names a rank that does not exist"}));
}

/// Swaps two actions of a rank, or removes one.
void disturb(std::mt19937& random, ActionLists& lists) {
  std::vector<RankAction>& list = lists.ranks[random() % lists.ranks.size()];
  if (list.size() < 2) return;
  const size_t i = random() % list.size();
  if (random() % 3 == 0) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
  } else {
    std::swap(list[i], list[random() % list.size()]);
  }
}

/// Every order in which 3 to 5 ranks can take turns leads to the same end, and the checker finds exactly the lists that do not run.
TEST(ActionLists, AreJudgedLikeEveryOrderOfExecution) {
  std::mt19937 random(1);
  int deadlocks = 0;
  int harmless = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const int ranks = 3 + trial % 3;
    std::vector<std::vector<int>> groups(3);
    for (auto& group : groups) {
      for (int rank = 0; rank < ranks; ++rank) {
        if (random() % 2 == 0) group.push_back(rank);
      }
    }
    ActionLists lists = test::random_lists(random, ranks, groups, 8, 40);
    const int changes = trial % 4;
    for (int i = 0; i < changes; ++i) disturb(random, lists);
    Problems problems = problems_of(lists);
    std::erase_if(problems, [](const std::string& each) { return each.find("never receives message") != std::string::npos; });
    const bool is_unreceived = problems_of(lists).size() != problems.size();
    if (is_unreceived) continue;  // reported before execution
    const test::EveryOrder every(lists);
    ASSERT_EQ(every.ends(), 1U) << "trial " << trial;
    ASSERT_EQ(problems.empty(), every.all_end()) << "trial " << trial << (problems.empty() ? "" : concat(": ", problems.front()));
    if (changes > 0) ++(problems.empty() ? harmless : deadlocks);
    if (changes == 0) {
      EXPECT_TRUE(problems.empty()) << trial;
    }
  }
  EXPECT_GT(deadlocks, 500);
  EXPECT_GT(harmless, 300);
}

/// 64 ranks with groups along data, shard and stages, and tied stages.
TEST(ActionLists, OfOneGlobalOrderRunOn64Ranks) {
  const std::vector<std::vector<int>> meshes{{4, 4, 4}, {2, 8, 4}, {8, 2, 4}, {1, 8, 8}, {64, 1, 1}};
  int deadlocks = 0;
  int harmless = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const auto& mesh = meshes[seed % meshes.size()];
    ActionLists lists = test::random_lists(random, 64, test::mesh_groups(random, mesh, 3), 400, 30);
    EXPECT_EQ(problems_of(lists), Problems{}) << "seed " << seed;
    std::vector<RankAction>& list = lists.ranks[random() % 64];
    std::vector<size_t> collectives;
    for (size_t i = 0; i < list.size(); ++i) {
      const auto& action = list[i];
      if (test::is_collective(action) && lists.groups[static_cast<size_t>(action.group)].size() > 1) collectives.push_back(i);
    }
    if (collectives.size() < 2) continue;
    const size_t which = random() % (collectives.size() - 1);
    std::swap(list[collectives[which]], list[collectives[which + 1]]);
    const Problems swapped = problems_of(lists);
    EXPECT_EQ(swapped.empty(), test::has_global_order(lists)) << "seed " << seed << (swapped.empty() ? "" : concat(": ", swapped.front()));
    ++(swapped.empty() ? harmless : deadlocks);
    std::swap(list[collectives[which]], list[collectives[which + 1]]);
    const RankAction missing = list[collectives[which]];
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(collectives[which]));
    const Problems lacking = problems_of(lists);
    ASSERT_FALSE(lacking.empty()) << "seed " << seed;
    EXPECT_NE(lacking.front().find(concat(name_of(missing), ", waits for ever for rank ", &list - lists.ranks.data())), std::string::npos)
        << lacking.front();
  }
  EXPECT_GT(deadlocks, 20);
  EXPECT_GT(harmless, 2);
}

TEST(ActionLists, OfAThousandActionsOn64RanksAreCheckedInAFractionOfASecond) {
  std::mt19937 random(5);
  const ActionLists lists = test::random_lists(random, 64, test::mesh_groups(random, {4, 4, 4}, 3), 15000, 30);
  size_t actions = 0;
  for (const auto& list : lists.ranks) actions += list.size();
  EXPECT_GE(actions, 64U * 900);
  const std::clock_t begin = std::clock();
  EXPECT_EQ(problems_of(lists), Problems{});
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  RecordProperty("milliseconds", std::to_string(1e3 * seconds));
  EXPECT_LT(seconds, 1) << "processor time for " << actions << " actions; without sanitizers a tenth of that";
}

/// A weight of two stages.
struct TiedUnits {
  int stage[2];
  int unit[2];
};
enum class Order { of_readiness, one_for_all };

/// The lists of 1F1B on data x shard x stages: units are gathered along `shard` at the first forward pass. After the last backward pass gradients are
/// reduced along `shard`, and then along `data`, or between all holders if they are tied. @param order of the reductions on each rank: that in which
/// its gradients are ready, the last unit first, or one by the number of the unit or tie. @param sends_first whether the last cotangent is sent
/// before the reductions
ActionLists pipeline_lists(const std::vector<int>& mesh, int micro_batches, int units, const std::vector<TiedUnits>& ties, Order order,
                           bool sends_first = true) {
  const auto [data, shards, stages] = std::tuple(mesh[0], mesh[1], mesh[2]);
  ActionLists lists;
  const auto new_group = [&] { return lists.groups.emplace_back(), static_cast<int>(lists.groups.size()) - 1; };
  std::map<std::tuple<int, int, int>, int> groups;  // by kind and coordinates
  const auto join = [&](int kind, int first, int second, int rank) {
    const auto found = groups.find({kind, first, second});
    const int group = found != groups.end() ? found->second : groups[{kind, first, second}] = new_group();
    lists.groups[static_cast<size_t>(group)].push_back(rank);
    return group;
  };
  const Schedule schedule = one_forward_one_backward(stages, micro_batches);
  for (int rank = 0; rank < data * shards * stages; ++rank) {
    const int stage = rank % stages;
    const int shard = rank / stages % shards;
    const int along_shard = join(0, rank / stages / shards, stage, rank);
    const int along_data = join(1, shard, stage, rank);
    struct Reduction {
      int key;  // in the one order
      int unit;
      int group;
      int sequence;
    };
    std::vector<Reduction> reductions;
    for (int unit = units - 1; unit >= 0; --unit) reductions.push_back({stage * units + unit, unit, along_data, unit});
    for (size_t t = 0; t < ties.size(); ++t) {
      for (int end = 0; end < 2; ++end) {
        if (ties[t].stage[end] != stage) continue;
        auto& reduction = reductions[static_cast<size_t>(units - 1 - ties[t].unit[end])];
        reduction = {static_cast<int>(t) - 1000, reduction.unit, join(2 + static_cast<int>(t), shard, 0, rank), 0};
      }
    }
    if (order == Order::one_for_all) std::sort(reductions.begin(), reductions.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
    auto& list = lists.ranks.emplace_back();
    for (const Action& action : schedule.devices[static_cast<size_t>(stage)]) {
      const bool is_forward = action.is_forward();
      const int from = rank + (is_forward ? -1 : 1);
      const int to = rank + (is_forward ? 1 : -1);
      const bool has_input = is_forward ? stage > 0 : stage + 1 < stages;
      const bool has_output = is_forward ? stage + 1 < stages : stage > 0;
      if (has_input) list.push_back(receive(from, action.micro_batch));
      for (int unit = 0; is_forward && action.micro_batch == 0 && unit < units; ++unit) list.push_back(gather(along_shard, unit));
      list.push_back({.kind = is_forward ? Kind::forward : Kind::backward, .stage = stage, .micro_batch = action.micro_batch});
      const bool is_last = !is_forward && action.micro_batch == micro_batches - 1;
      if (has_output && (!is_last || sends_first)) list.push_back(send(to, action.micro_batch));
      for (const Reduction& each : is_last ? reductions : std::vector<Reduction>()) {
        list.push_back(reduce(along_shard, units + each.unit));
        list.push_back(reduce(each.group, each.sequence));
      }
      if (has_output && is_last && !sends_first) list.push_back(send(to, action.micro_batch));
    }
  }
  return lists;
}

/// Tied stages may reduce after their last backward passes, in one order. In the order in which gradients are ready they deadlock.
TEST(ActionLists, ReductionsOfTiedStagesNeedOneOrder) {
  const std::vector<TiedUnits> one{{{0, 3}, {0, 4}}};                         // the embedding and the output layer
  const std::vector<TiedUnits> mirrored{{{0, 3}, {0, 4}}, {{0, 3}, {1, 3}}};  // the first stage has the second one's gradient first
  for (const auto& mesh : std::vector<std::vector<int>>{{1, 1, 4}, {2, 2, 4}, {4, 4, 4}}) {
    EXPECT_EQ(problems_of(pipeline_lists(mesh, 8, 5, {}, Order::of_readiness)), Problems{});
    EXPECT_EQ(problems_of(pipeline_lists(mesh, 8, 5, one, Order::of_readiness)), Problems{});
    EXPECT_EQ(problems_of(pipeline_lists(mesh, 8, 5, mirrored, Order::one_for_all)), Problems{});
    EXPECT_FALSE(problems_of(pipeline_lists(mesh, 8, 5, mirrored, Order::of_readiness)).empty());
    EXPECT_FALSE(problems_of(pipeline_lists(mesh, 8, 5, one, Order::one_for_all, false)).empty()) << "the first stage waits for its last cotangent";
  }
  std::mt19937 random(2);
  int deadlocks = 0;
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<TiedUnits> ties;
    std::set<std::pair<int, int>> tied;
    while (ties.size() < 3) {
      const auto unit = [&] { return static_cast<int>(random() % 5); };
      const int first = static_cast<int>(random() % 3);
      const TiedUnits tie{{first, first + 1 + static_cast<int>(random() % static_cast<unsigned>(3 - first))}, {unit(), unit()}};
      if (tied.emplace(tie.stage[0], tie.unit[0]).second && tied.emplace(tie.stage[1], tie.unit[1]).second) ties.push_back(tie);
    }
    EXPECT_EQ(problems_of(pipeline_lists({2, 2, 4}, 6, 5, ties, Order::one_for_all)), Problems{});
    deadlocks += problems_of(pipeline_lists({2, 2, 4}, 6, 5, ties, Order::of_readiness)).empty() ? 0 : 1;
  }
  RecordProperty("deadlocks_of_100", deadlocks);
  EXPECT_GT(deadlocks, 20) << "in the order in which gradients are ready";
}

}  // namespace action_lists_test
}  // namespace tw::pipeline
