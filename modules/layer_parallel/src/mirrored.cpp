// SPDX-License-Identifier: Apache-2.0
#include "mirrored.hpp"

#include <algorithm>

namespace tw::layer_parallel {

LevelPlan mirrored(const LevelPlan& plan) {
  std::vector<Level> levels;
  for (int l = 0; l < plan.levels(); ++l) levels.push_back(plan.level(l));
  std::vector<int64_t> cuts;
  for (const int64_t cut : plan.cuts()) cuts.push_back(plan.cuts().back() - cut);
  std::reverse(cuts.begin(), cuts.end());
  return {std::move(levels), std::move(cuts), plan.owner() == StepOwner::left ? StepOwner::right : StepOwner::left};
}

}  // namespace tw::layer_parallel
