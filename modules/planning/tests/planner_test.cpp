// SPDX-License-Identifier: Apache-2.0
// The planner, compared with brute force on random models, and on chains whose optimum is known.
#include "message_of.hpp"
#include "random_profile.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <map>

#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/planning/analytic.hpp>

#include "coarsening.hpp"
#include "stage_search.hpp"

namespace tw::pipeline {
namespace planner_test {

using test::expect_contains;
using testing::message_of;

using test::uniform;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int graphs = 500;

struct Problem {
  Profile profile = {};
  Cluster cluster = {};
  PlanOptions options = {};
};

Problem random_problem(unsigned seed) {
  std::mt19937 random(seed);
  Problem problem{.profile = test::random_profile(random, 3 + static_cast<int>(random() % 5))};
  double bytes = 0;
  for (const ProfiledParameter& parameter : problem.profile.parameters) bytes += 4 * parameter.bytes;
  for (const ProfiledOperator& op : problem.profile.operators) bytes += op.saved_bytes.of(8);
  problem.cluster = {.devices = 1 + static_cast<int>(random() % 4),
                     .memory_bytes = bytes * uniform(random, 0.1, 0.9),
                     .between_stages = {uniform(random, 0, 0.3), uniform(random, 30, 3000)},
                     .within_stage = {uniform(random, 0, 0.3), uniform(random, 10, 500)}};
  problem.options = {.batch = 4 + static_cast<int64_t>(random() % 5), .gap = 0};
  problem.options.parameters.sharded_optimizer = random() % 4 == 0;
  problem.cluster.overlapped_all_reduce = random() % 2 == 0;
  if (random() % 5 == 0) {  // many plans with equal sums
    for (ProfiledOperator& op : problem.profile.operators) {
      op.forward = {0, 1};
      op.backward = {0, 2};
    }
  }
  if (seed % 2 == 0) test::give_halves(problem.profile, random);
  return problem;
}

/// Calls `visit` for every cut of `blocks` blocks into stages, with every assignment of `devices` devices to them, from `least` to `most` each.
void for_all_stages(int blocks, int devices, std::vector<StageChoice>& stages, const std::function<void()>& visit, int least = 1,
                    int most = 1 << 20) {
  const int begin = stages.empty() ? 0 : stages.back().end;
  if (begin == blocks) visit();
  for (int end = begin + 1; end <= blocks; ++end) {
    for (int replicas = least; replicas <= std::min(most, devices); ++replicas) {
      stages.push_back({.end = end, .replicas = replicas});
      for_all_stages(blocks, devices - replicas, stages, visit, least, most);
      stages.pop_back();
    }
  }
}

TEST(StageSearch, EqualsBruteForce) {
  int feasible = 0;
  int missed = 0;
  for (unsigned seed = 0; seed < graphs; ++seed) {
    const auto [profile, cluster, options] = random_problem(seed);
    const OperatorOrder order(profile);
    const BlockCostTable costs(order, coarsen(order, {}, 128, 1));
    for (const int m : {1, 2, 4}) {
      for (const ScheduleKind schedule : {ScheduleKind::gpipe, ScheduleKind::one_forward_one_backward, ScheduleKind::zero_bubble_h1}) {
        SearchSetting setting{schedule, m, (options.batch + m - 1) / m, cluster.devices, seed % 3 == 0 ? 2 : cluster.devices};
        const bool exact = seed % 5 == 1;  // a given number of stages, of one device each
        if (exact) setting.min_stages = setting.max_stages;
        if (exact) setting.max_replicas = 1;
        double best = infinity;
        double fewest = infinity;
        std::vector<StageChoice> stages;
        for_all_stages(costs.blocks(), cluster.devices, stages, [&] {
          const auto count = static_cast<int>(stages.size());
          if (count > setting.max_stages) return;
          double sum = 0;
          double load = 0;
          for (size_t i = 0; i < stages.size(); ++i) {
            if (stages[i].replicas > std::min<int64_t>(setting.rows, setting.max_replicas)) return;
            const int held = schedule == ScheduleKind::gpipe ? m : std::min<int>(m, static_cast<int>(stages.size() - i));
            const auto cost =
                fastest_recompute(costs, i == 0 ? 0 : stages[i - 1].end, stages[i].end, stages[i].replicas, held, setting, cluster, options);
            if (!cost) return;
            sum += cost->first.tau;
            load = std::max(load, cost->first.load);
          }
          if (count >= setting.min_stages) best = std::min(best, sum + load);
          double devices = 0;
          for (const StageChoice& stage : stages) devices += stage.replicas;
          fewest = std::min(fewest, devices);
        });
        const double fewest_found = fewest_devices(costs, setting, cluster, options).objective;
        double found = infinity;
        for (const Candidate& candidate : search_stages(costs, setting, cluster, options, infinity)) found = std::min(found, candidate.objective);
        feasible += std::isfinite(best) ? 1 : 0;
        if (schedule == ScheduleKind::zero_bubble_h1) {
          // The search takes a stage only if it also fits with fewer micro-batches in flight, of which more may then wait.
          ASSERT_GE(fewest_found, fewest) << "graph " << seed << ", m = " << m;
          if (std::isfinite(found)) {
            ASSERT_GE(found, best * (1 - 1e-9)) << "graph " << seed << ", m = " << m;
          }
          missed += found > best * (1 + 1e-9) ? 1 : 0;
          continue;
        }
        ASSERT_EQ(fewest_found, fewest) << "graph " << seed << ", m = " << m;
        if (!std::isfinite(best) && !std::isfinite(found)) continue;
        ASSERT_NEAR(found, best, 1e-9 * best) << "graph " << seed << ", m = " << m;
      }
    }
  }
  EXPECT_GT(feasible, 2 * graphs);
  EXPECT_LT(feasible, 9 * graphs) << "some do not fit";
  EXPECT_LT(missed, graphs / 20);
  std::cout << missed << " of " << feasible << " optima missed, in ZB-H1\n";
}

/// The bound by which the search leaves out settings: no candidate is below it, and for equal stages without transfers it is the objective.
TEST(StageSearch, HasALowerBound) {
  using enum ScheduleKind;
  int candidates = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const auto [profile, cluster, options] = random_problem(seed);
    const OperatorOrder order(profile);
    const BlockCostTable costs(order, coarsen(order, {}, 128, 1));
    Profile equal{.hash = "equal"};
    for (int i = 0; i < 12; ++i)
      equal.operators.push_back({.name = concat(i), .inputs = {i - 1}, .forward = {0, 1}, .backward = {0, 3}, .weights = {0, 1}});
    const OperatorOrder equal_order(equal);
    const BlockCostTable equal_costs(equal_order, coarsen(equal_order, {}, 128, 1));
    for (const ScheduleKind schedule : {gpipe, one_forward_one_backward, zero_bubble_h1, interleaved, zero_bubble_v}) {
      const int stages = (1 + static_cast<int>(seed % 3)) * stages_per_device(schedule);
      const int replicas = 1 + static_cast<int>(seed % 2);
      const SearchSetting setting{.schedule = schedule,
                                  .micro_batches = 1 + static_cast<int>(seed % 5),
                                  .rows = 4,
                                  .devices = stages * replicas,
                                  .max_stages = stages,
                                  .min_replicas = replicas,
                                  .max_replicas = replicas,
                                  .min_stages = stages};
      const double bound = lower_bound(costs, setting, stages, replicas, cluster, options);
      for (const Candidate& each : search_stages(costs, setting, cluster, options, infinity)) {
        ++candidates;
        EXPECT_GE(each.objective, bound * (1 - 1e-9)) << "graph " << seed << ", " << name_of(schedule);
      }
      double least = infinity;
      for (const Candidate& each : search_stages(equal_costs, setting, {}, options, infinity)) least = std::min(least, each.objective);
      EXPECT_NEAR(lower_bound(equal_costs, setting, stages, replicas, {}, options), least, 1e-9 * least) << name_of(schedule) << ' ' << stages;
    }
  }
  EXPECT_GT(candidates, 300);
}

/// Plans with several stages on each device are valid, fit, predict the same again, and survive JSON.
TEST(Planner, GivesEachDeviceSeveralStages) {
  int found = 0;
  int refused = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    Problem problem = random_problem(seed);
    std::mt19937 random(seed);
    problem.profile = test::random_profile(random, 10 + static_cast<int>(seed % 8));
    auto& [profile, cluster, options] = problem;
    cluster.memory_bytes *= 1 + seed % 4;
    options.batch = 8;
    options.schedule = seed % 2 == 0 ? ScheduleKind::interleaved : ScheduleKind::zero_bubble_v;
    if (seed % 3 == 0) options.stages = cluster.devices;
    PlanResult result;
    try {
      result = plan(profile, cluster, options);
    } catch (const Error& error) {
      ++refused;
      expect_contains(error.what(), "the model ");
      continue;
    }
    ++found;
    for (const Plan& each : result.plans) {
      ASSERT_EQ(problems_of(each, profile, cluster.devices), std::vector<std::string>{}) << "graph " << seed;
      const auto device_of = schedule_of(each).device_of_stages();
      if (options.stages) {
        EXPECT_EQ(each.stages.size(), 2U * static_cast<size_t>(*options.stages));
      }
      for (const double bytes : device_memory(each)) EXPECT_LE(bytes, cluster.memory_bytes) << "graph " << seed;
      std::vector<double> counted(device_memory(each).size(), 0);
      const std::vector<double> of_stages = test::memory_of(each, profile, options.parameters);
      for (size_t i = 0; i < of_stages.size(); ++i) counted[static_cast<size_t>(device_of[i])] += of_stages[i];
      for (const double bytes : counted) EXPECT_LE(bytes, cluster.memory_bytes * (1 + 1e-9)) << "graph " << seed;
      const Plan again = predicted(each, profile, cluster, options.parameters);
      EXPECT_NEAR(again.step_s, each.step_s, 1e-9 * each.step_s);
      const Plan read = plan_from_json(to_json(each, profile), profile, cluster.devices);
      EXPECT_EQ(to_json(predicted(read, profile, cluster, options.parameters), profile), to_json(again, profile));
    }
    EXPECT_GE(result.best().step_s, result.relaxed.balance * (1 - 1e-9));
  }
  EXPECT_GT(found, 40);
  EXPECT_GT(refused, 10);
}

/// The stages with any recomputation with which each has at most `memory`; empty if there is none. Full and selective take the same time.
std::optional<Plan> fitting(Plan plan, const Problem& problem, double memory) {
  const auto& [profile, cluster, options] = problem;
  for (const Recompute recompute : {Recompute::full, Recompute::selective, Recompute::none}) {
    const std::vector<double> bytes = test::memory_of(plan, profile, options.parameters);
    if (*std::max_element(bytes.begin(), bytes.end()) <= memory) return plan;
    for (size_t i = 0; i < plan.stages.size() && recompute != Recompute::none; ++i) {
      if (bytes[i] > memory) plan.stages[i].recompute = recompute;
    }
  }
  return std::nullopt;
}

/// The best predicted time of all plans that fit in memory, with all schedules. Stages of one device have equal shares of it, and all stages of such
/// schedules as many replicas, as in the planner.
double best_by_brute_force(const Problem& problem) {
  const auto& [profile, cluster, options] = problem;
  const OperatorOrder order(profile);
  const BlockCostTable costs(order, coarsen(order, {}, 128, 1));
  double best = infinity;
  std::vector<StageChoice> stages;
  const auto visit = [&](ScheduleKind schedule, int m) {
    Plan plan{.hash = profile.hash, .batch = options.batch, .micro_batches = m, .schedule = schedule};
    if (std::ranges::any_of(stages, [&](const StageChoice& stage) { return stage.replicas > plan.rows(); })) return;
    int begin = 0;
    for (const StageChoice& stage : stages) {
      plan.stages.push_back({.operators = costs.operators_of(begin, stage.end), .replicas = stage.replicas});
      for (int block = begin; block < stage.end; ++block) plan.stages.back().segments.push_back(order.operator_at(block));
      begin = stage.end;
    }
    const std::optional<Plan> fits = fitting(plan, problem, cluster.memory_bytes / stages_per_device(schedule));
    if (fits) best = std::min(best, predicted(*fits, profile, cluster, options.parameters).step_s);
  };
  const auto visit_all = [&](ScheduleKind schedule) {
    if (static_cast<int>(stages.size()) % stages_per_device(schedule) != 0) return;
    for (const int m : micro_batch_counts(options)) visit(schedule, m);
  };
  for (const auto& [name, schedule] : schedule_names()) {
    if (stages_per_device(schedule) == 1) {
      for_all_stages(costs.blocks(), cluster.devices, stages, [&] { visit_all(schedule); });
      continue;
    }
    for (int replicas = 1; replicas <= cluster.devices; ++replicas)
      for_all_stages(costs.blocks(), stages_per_device(schedule) * cluster.devices, stages, [&] { visit_all(schedule); }, replicas, replicas);
  }
  return best;
}

TEST(Planner, IsWithinFivePercentOfBruteForceAndHolds) {
  int feasible = 0;
  int close = 0;
  int equal = 0;
  int staged = 0;
  int recomputing = 0;
  std::map<ScheduleKind, int> chosen;
  double worst = 1;
  for (unsigned seed = 0; seed < graphs; ++seed) {
    const Problem problem = random_problem(seed);
    const double best = best_by_brute_force(problem);
    if (!std::isfinite(best)) {
      EXPECT_THROW(plan(problem.profile, problem.cluster, problem.options), Error) << "graph " << seed;
      continue;
    }
    ++feasible;
    const PlanResult result = plan(problem.profile, problem.cluster, problem.options);
    for (const Plan& one : result.plans) {
      EXPECT_EQ(problems_of(one, problem.profile, problem.cluster.devices), std::vector<std::string>{}) << "graph " << seed;
      const std::vector<double> memory = test::memory_of(one, problem.profile, problem.options.parameters);
      for (size_t i = 0; i < memory.size(); ++i) {
        EXPECT_LE(stages_per_device(one.schedule) * memory[i], problem.cluster.memory_bytes + 1e-6) << "graph " << seed;
        EXPECT_NEAR(memory[i], one.stages[i].figures.memory.total(), 1e-6) << "graph " << seed << ", stage " << i;
      }
      EXPECT_NEAR(predicted(one, problem.profile, problem.cluster, problem.options.parameters).step_s, one.step_s, 1e-9) << "graph " << seed;
    }
    const Plan& ours = result.best();
    EXPECT_GE(ours.step_s, best * (1 - 1e-9)) << "graph " << seed << ": brute force has missed it";
    close += ours.step_s <= 1.05 * best ? 1 : 0;
    equal += ours.step_s <= best * (1 + 1e-9) ? 1 : 0;
    staged += ours.stages.size() > 1 ? 1 : 0;
    ++chosen[ours.schedule];
    recomputing += std::any_of(ours.stages.begin(), ours.stages.end(), [](const StagePlan& s) { return s.recompute != Recompute::none; }) ? 1 : 0;
    worst = std::max(worst, ours.step_s / best);
  }
  std::cout << feasible << " of " << graphs << " graphs fit; equal to brute force: " << equal << ", within 5 %: " << close << ", worst " << worst
            << "; " << staged << " have several stages, " << recomputing << " recompute\n";
  for (const auto& [kind, count] : chosen) std::cout << name_of(kind) << ": " << count << "  ";
  std::cout << '\n';
  EXPECT_GT(feasible, graphs / 2);
  EXPECT_LT(feasible, graphs);
  EXPECT_GT(staged, graphs / 10);
  EXPECT_GT(recomputing, graphs / 50);
  EXPECT_GE(close, 0.95 * feasible);
}

/// A chain of equal operators, with one row per micro-batch on one replica.
Profile equal_chain(int operators, double parameter_bytes) {
  Profile profile{.hash = "chain", .input_bytes = {0, 1}};
  for (int i = 0; i < operators; ++i) {
    profile.parameters.push_back({concat("p", i), parameter_bytes});
    profile.operators.push_back({.name = concat("op", i),
                                 .inputs = {i - 1},
                                 .parameters = {i},
                                 .forward = {0, 1e-3},
                                 .backward = {0, 2e-3},
                                 .output_bytes = {0, 1},
                                 .saved_bytes = {0, 1}});
  }
  return profile;
}

/// No plan is faster than all devices without idle time, or than the largest operator for all rows on all devices.
TEST(Planner, IsCloseToTheLowerBoundOnEqualChains) {
  for (const int operators : {16, 96, 1000}) {
    for (const int devices : {2, 8}) {
      for (const double share : {2.0, 1.4 / devices}) {  // of the model on one device: for data parallelism, and for a pipeline
        const Cluster cluster{
            .devices = devices, .memory_bytes = share * 4000 * operators + 600, .between_stages = {0, 1e9}, .within_stage = {0, 1e9}};
        const PlanOptions options{.batch = 128};
        const PlanResult result = plan(equal_chain(operators, 1000), cluster, options);
        const double bound = 3e-3 * operators * 128 / devices;
        EXPECT_GE(result.best().step_s, bound * (1 - 1e-9));
        EXPECT_LE(result.best().step_s, 1.15 * bound) << operators << " operators, " << devices << " devices, share " << share << '\n'
                                                      << explain(result);
        EXPECT_EQ(result.is_data_parallel(), share > 1) << operators << " operators, " << devices << " devices, share " << share;
      }
    }
  }
}

TEST(Planner, IsCloseToTheLowerBoundWithSeveralStagesOnADevice) {
  Profile chain = equal_chain(96, 1000);
  for (ProfiledOperator& op : chain.operators) op.weights = {0, 1e-3};
  const Cluster cluster{.devices = 4, .memory_bytes = infinity, .between_stages = {0, 1e9}, .within_stage = {0, 1e9}};
  const double work = 3e-3 * 96 * 128 / 4;
  // Bubbles of (p - 1)(F + B) / 2 and (p - 1) F / 2, of m (F + B) = 48 F, where F and B are passes of all stages of a device.
  for (const auto& [schedule, bubble] : {std::pair(ScheduleKind::interleaved, 4.5 / 48), std::pair(ScheduleKind::zero_bubble_v, 1.5 / 48)}) {
    const PlanResult result = plan(chain, cluster, {.batch = 128, .micro_batches = 16, .schedule = schedule, .stages = 4});
    EXPECT_NEAR(result.best().step_s, (1 + bubble) * work, 0.01 * work) << explain(result);
  }
}

TEST(Planner, FindsTheSameTwice) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto [profile, cluster, options] = random_problem(seed);
    try {
      const PlanResult first = plan(profile, cluster, options);
      const PlanResult second = plan(profile, cluster, options);
      EXPECT_EQ(explain(first), explain(second));
      ASSERT_EQ(first.plans.size(), second.plans.size());
      for (size_t i = 0; i < first.plans.size(); ++i) EXPECT_EQ(to_json(first.plans[i], profile), to_json(second.plans[i], profile));
    } catch (const Error&) {  // does not fit
    }
  }
}

int stage_of(const Plan& plan, const Profile& profile, const std::string& name) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (const int op : plan.stages[s].operators) {
      if (profile.operators[static_cast<size_t>(op)].name == name) return static_cast<int>(s);
    }
  }
  return -1;
}

TEST(Planner, KeepsTogetherWhatIsPinned) {
  const Profile profile = equal_chain(8, 1000);
  const Cluster cluster{.devices = 2, .memory_bytes = 30000, .between_stages = {0, 1e9}, .within_stage = {0, 1e3}};
  const PlanResult free = plan(profile, cluster, {.batch = 16});
  ASSERT_NE(stage_of(free.best(), profile, "op3"), stage_of(free.best(), profile, "op4")) << "the middle is the best cut";
  for (const auto& together : std::vector<std::vector<std::string>>{{"op3", "op4"}, {"op4", "op2", "op5"}}) {
    const PlanResult pinned = plan(profile, cluster, {.batch = 16, .together = {together}});
    EXPECT_GE(pinned.best().step_s, free.best().step_s);
    for (const Plan& one : pinned.plans) {
      for (const std::string& name : together) EXPECT_EQ(stage_of(one, profile, name), stage_of(one, profile, together[0])) << name;
    }
  }
  EXPECT_THROW(plan(profile, cluster, {.batch = 16, .together = {{"op3", "op99"}}}), ContractError);
  const PlanResult one_stage = plan(profile, cluster, {.batch = 16, .max_stages = 1, .parameters = {.optimizer = 0}});
  for (const Plan& one : one_stage.plans) EXPECT_EQ(one.stages.size(), 1U);
}

TEST(Planner, SaysWhatDoesNotFitAndHowManyDevicesWould) {
  Profile profile = equal_chain(8, 1000);
  Cluster cluster{.devices = 2, .memory_bytes = 8200};  // two operators per device
  const PlanOptions options{.batch = 4};
  const std::string too_few = message_of([&] { plan(profile, cluster, options); });
  expect_contains(too_few, "the model does not fit on 2 devices of 8200 bytes");
  expect_contains(too_few, "\"op4\" does not fit: the devices before it are full, and 160");
  expect_contains(too_few, "; 4 devices are sufficient");
  cluster.devices = 4;
  const Plan on_four = plan(profile, cluster, options).best();
  EXPECT_EQ(on_four.devices(), 4);
  EXPECT_EQ(on_four.stages.size(), 4U * static_cast<size_t>(stages_per_device(on_four.schedule))) << "four in a row";
  cluster.devices = 3;
  expect_contains(message_of([&] { plan(profile, cluster, options); }), "; 4 devices are sufficient");

  profile.parameters[5].bytes = 3000;
  const std::string too_large = message_of([&] { plan(profile, cluster, options); });
  expect_contains(too_large, "\"op5\" alone needs 12006 bytes on each device, 3806 bytes more than a device has: no number of devices is sufficient");
  expect_contains(message_of([&] { plan(equal_chain(8, 1000), cluster, {.batch = 4, .max_stages = 2}); }),
                  "with at most 2 stages, no number of devices");
}

TEST(Planner, TriesPowersOfTwoAndDivisors) {
  EXPECT_EQ(micro_batch_counts({.batch = 100}), (std::vector<int>{1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64}));
  EXPECT_EQ(micro_batch_counts({.batch = 1031}).back(), 1024);
  EXPECT_EQ(micro_batch_counts({.batch = 1 << 20}).back(), 4096);
  EXPECT_EQ(micro_batch_counts({.batch = 100, .micro_batches = 7}), std::vector<int>{7});
}

TEST(Planner, RefusesWrongOptionsByName) {
  const Profile profile = equal_chain(4, 1);
  const auto refused = [&](const Cluster& cluster, const PlanOptions& options) { return message_of([&] { plan(profile, cluster, options); }); };
  expect_contains(refused({.devices = 0}, {}), "devices must be at least 1");
  expect_contains(refused({.devices = 1, .between_stages = {0, 0}}, {}), "between_stages.bytes_per_second must be positive");
  expect_contains(refused({}, {.batch = 4, .micro_batches = 8}), "a batch of 4 rows cannot be divided into 8 micro-batches");
  expect_contains(refused({}, {.batch = 4, .recompute = {}}), "recompute must allow at least one kind");
  expect_contains(refused({}, {.batch = 4, .max_stages = 0}), "max_stages must be at least 1");
  expect_contains(refused({.devices = 2}, {.batch = 4, .stages = 3}), "there are 2 devices for 3 stages");
  expect_contains(refused({.devices = 8}, {.batch = 4, .stages = 5}), "the model can be cut into at most 4 stages, but 5 are needed");
  expect_contains(refused({.devices = 8}, {.batch = 4, .max_stages = 2, .stages = 3}), "there cannot be 3 stages, because max_stages is 2");
}

/// One micro-batch takes the same time wherever the stages are cut; even ones need the least memory.
TEST(Planner, CutsStagesEvenlyWhereTheirTimeLeavesItFree) {
  const Cluster cluster{.devices = 4, .between_stages = {0, 1e9}};
  const PlanResult result = plan(equal_chain(12, 1000), cluster, {.batch = 4, .micro_batches = 1, .stages = 4});
  for (const StagePlan& stage : result.best().stages) EXPECT_EQ(stage.operators.size(), 3U);
}

/// Recomputation only where memory requires it, and never where it is not allowed.
TEST(Planner, RecomputesOnlyWhereItMust) {
  Profile profile = equal_chain(8, 1);
  for (ProfiledOperator& op : profile.operators) op.saved_bytes = {0, 100};
  const auto recomputes = [](const PlanResult& result) {
    const auto& stages = result.best().stages;
    return std::any_of(stages.begin(), stages.end(), [](const StagePlan& stage) { return stage.recompute != Recompute::none; });
  };
  Cluster cluster{.devices = 1, .memory_bytes = 1000};
  EXPECT_FALSE(recomputes(plan(profile, cluster, {.batch = 1})));
  EXPECT_EQ(plan(profile, cluster, {.batch = 1, .recompute = {Recompute::full}}).best().stages[0].recompute, Recompute::full);
  cluster.memory_bytes = 200;  // 8 operators save 800, a segment saves 100
  const PlanResult tight = plan(profile, cluster, {.batch = 1});
  EXPECT_EQ(tight.best().stages[0].recompute, Recompute::selective);
  EXPECT_DOUBLE_EQ(tight.best().step_s, 8 * (1e-3 + 2e-3 + 1e-3)) << "forward once more";
  EXPECT_THROW(plan(profile, cluster, {.batch = 1, .recompute = {Recompute::none}}), Error);
}

TEST(Coarsening, CutsBetweenTheBlocksOfATransformer) {
  const Profile profile = transformer_profile(96, 256, 4, 64, 1000, {});
  const OperatorOrder order(profile);
  const std::vector<int> begins = coarsen(order, {}, 128, 4);
  EXPECT_LE(begins.size(), 129U);
  EXPECT_EQ(begins.front(), 0);
  EXPECT_EQ(begins.back(), order.size());
  EXPECT_TRUE(std::is_sorted(begins.begin(), begins.end()));
  size_t at_one_value = 0;  // before a block's layer norms, only the residual crosses
  for (const int begin : begins) at_one_value += begin < order.size() && order.border(begin).of(1) == 64 * 256 * 4 ? 1 : 0;
  EXPECT_GE(at_one_value, 120U);
}

TEST(Coarsening, BlocksAreAboutEqual) {
  for (const int operators : {300, 5000}) {
    const Profile profile = equal_chain(operators, 10);
    const OperatorOrder order(profile);
    const std::vector<int> begins = coarsen(order, {}, 64, 1);
    ASSERT_EQ(begins.size(), 65U);
    for (size_t i = 1; i < begins.size(); ++i) EXPECT_NEAR(begins[i] - begins[i - 1], operators / 64.0, 1) << "block " << i;
  }
  const Profile few = equal_chain(5, 10);
  EXPECT_EQ(coarsen(OperatorOrder(few), {}, 64, 1).size(), 6U);
  EXPECT_EQ(coarsen(OperatorOrder(few), {{1, 3}}, 64, 1), (std::vector<int>{0, 1, 4, 5}));
}

TEST(Explanation, NamesWhatBindsAndTheNextBest) {
  const Profile profile = equal_chain(16, 1000);
  const auto explained = [&](const Cluster& cluster, const PlanOptions& options) { return explain(plan(profile, cluster, options)); };
  const Link fast{0, 1e12};
  const std::string by_memory = explained({.devices = 2, .memory_bytes = 40000, .between_stages = fast, .within_stage = fast}, {.batch = 4});
  expect_contains(by_memory, "bottleneck: memory.");
  expect_contains(by_memory, "next best: 2 stages on 2 devices (1+1)");
  expect_contains(explained({.devices = 2, .between_stages = {0, 1e-3}, .within_stage = {0, 1e5}}, {.batch = 4}),
                  "bottleneck: the all-reduce of gradients.");
  const std::string alone = explained({.devices = 2, .between_stages = fast, .within_stage = fast}, {.batch = 4});
  expect_contains(alone, "plain data parallelism wins");
  expect_contains(alone, "bottleneck: the work itself");
  const std::string by_links = explained({.devices = 2, .memory_bytes = 40000, .between_stages = {0, 5}, .within_stage = {0, 1e-3}}, {.batch = 4});
  expect_contains(by_links, "bottleneck: the links between stages.");
}

}  // namespace planner_test
}  // namespace tw::pipeline
