// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/level_recommendation.hpp>

#include <algorithm>
#include <tuple>
#include <tw/base/contract.hpp>

namespace tw::layer_parallel {
namespace {

constexpr int max_levels = 5;

/// Adds plans with `levels` levels, if there are enough layers for them.
void add_choices(std::vector<LevelChoice>& all, int64_t layers, int ranks, int levels, const PerLevel<int64_t>& coarsening,
                 const Candidates& candidates) {
  const LevelOptions options{.levels = levels, .coarsening = coarsening, .min_coarse = layers < 8 ? 2 : 4};
  const int64_t grid = steps_on_grid(layers, options);
  const LevelPlan plan = level_plan(grid, ranks, options, StepOwner::left);
  if (grid < ranks || plan.levels() < levels) return;
  Costs costs = candidates.costs;
  costs.serial_layers += layers - grid;
  const bool relaxes = levels > 1 && std::max(candidates.forward_iterations, candidates.backward_iterations) > 1;
  for (const int nu : relaxes ? candidates.relaxations : std::vector<int>{0}) {
    const auto pass = [&](int iterations) { return PassOptions{.cycle = {.relaxations = nu}, .iterations = iterations}; };
    all.push_back({plan, coarsening, nu, predict(plan, pass(candidates.forward_iterations), pass(candidates.backward_iterations), costs)});
  }
}

}  // namespace

void visit(Candidates& candidates, OptionVisitor& visitor) {
  visitor.group("costs", candidates.costs);
  visitor.field("relaxations", candidates.relaxations, at_least(0), {.meaning = "numbers of relaxations on every level to try"});
  visitor.field("forward_iterations", candidates.forward_iterations, at_least(1), {.meaning = "iterations of a forward pass"});
}

void Candidates::validate() const {
  expect_none(out_of_bounds(*this));
  TW_EXPECTS(!coarsenings.empty() && !relaxations.empty(), "coarsenings and relaxations need at least one value each");
  for (const PerLevel<int64_t>& coarsening : coarsenings) LevelOptions{.coarsening = coarsening}.validate();
}

std::vector<LevelChoice> level_choices(int64_t layers, int ranks, const Candidates& candidates) {
  candidates.validate();
  TW_EXPECTS(layers >= 2, "at least two layers are needed, got ", layers);
  TW_EXPECTS(ranks >= 1 && ranks <= layers, "the number of ranks must be from 1 to the number of layers, ", layers, "; got ", ranks);
  std::vector<LevelChoice> all;
  add_choices(all, layers, ranks, 1, candidates.coarsenings.front(), candidates);
  for (const PerLevel<int64_t>& coarsening : candidates.coarsenings) {
    for (int levels = 2; levels <= max_levels; ++levels) add_choices(all, layers, ranks, levels, coarsening, candidates);
  }
  std::stable_sort(all.begin(), all.end(), [](const LevelChoice& a, const LevelChoice& b) { return a.prediction.speed_up > b.prediction.speed_up; });
  return all;
}

LevelChoice recommend(int64_t layers, int ranks, const Candidates& candidates) {
  const std::vector<LevelChoice> all = level_choices(layers, ranks, candidates);
  if (all.front().is_serial()) return all.front();
  const double enough = 0.95 * all.front().prediction.speed_up;
  const auto order = [](const LevelChoice& choice) { return std::tuple(choice.coarsening.at(0), -choice.relaxations, choice.plan.levels()); };
  const LevelChoice* best = &all.front();
  for (const LevelChoice& choice : all) {
    if (!choice.is_serial() && choice.prediction.speed_up >= enough && order(choice) < order(*best)) best = &choice;
  }
  return *best;
}

}  // namespace tw::layer_parallel
