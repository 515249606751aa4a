// SPDX-License-Identifier: Apache-2.0
// Recommends levels, coarsening and relaxations by predicted speed-up. Pure.
#pragma once
#include <tw/planning/level_prediction.hpp>
#include <vector>

namespace tw::layer_parallel {

/// The settings to try, and the costs to predict with.
struct Candidates {
  Costs costs = {};
  std::vector<PerLevel<int64_t>> coarsenings = {2, 4, 8, 16, 32, 64};
  /// Numbers of relaxations on every level: 0 (F) and 1 (FCF). Varied only if there are several iterations: the first one skips the downcycle, where
  /// relaxations take place.
  std::vector<int> relaxations = {0, 1};
  int forward_iterations = 2;
  static constexpr int backward_iterations = 1;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(Candidates& candidates, OptionVisitor& visitor);

/// One configuration of an ODE block, and its prediction.
struct LevelChoice {
  LevelPlan plan;
  PerLevel<int64_t> coarsening;
  int relaxations = 0;
  Prediction prediction;

  /// Whether the layers are executed serially.
  bool is_serial() const noexcept { return plan.levels() == 1; }
};

/// All possible combinations of `candidates` for this many layers and ranks, with two to five levels, and serial execution (one level). Sorted by
/// predicted speed-up, the fastest first. Whole intervals form the grid; the remaining layers are executed serially. The coarsest level has at least
/// four steps, or two if there are fewer than eight layers: with fewer steps, it would be a poor model of the network.
/// @param layers at least 2 @param ranks from 1 to `layers`
std::vector<LevelChoice> level_choices(int64_t layers, int ranks, const Candidates& candidates = {});

/// The recommended choice. Of the choices within 5 % of the largest speed-up, it is the one expected to converge best: with the smallest coarsening
/// on the finest level, then the most relaxations, then the fewest levels. Serial if nothing is faster.
LevelChoice recommend(int64_t layers, int ranks, const Candidates& candidates = {});

}  // namespace tw::layer_parallel
