// SPDX-License-Identifier: Apache-2.0
#include "plan_lines.hpp"

#include <tw/base/concat.hpp>

namespace tw::layer_parallel {

std::vector<std::string> lines_of(const LevelPlan& plan) {
  std::vector<std::string> lines;
  for (int l = 0; l < plan.levels(); ++l)
    lines.push_back(concat("steps of level ", l, ": ", plan.level(l).steps, ", coarsening ", plan.level(l).coarsening));
  std::string cuts = "blocks of steps end at";
  for (const int64_t cut : plan.cuts()) cuts += concat(' ', cut);
  lines.push_back(std::move(cuts));
  lines.push_back(concat("owner of a step: ", plan.owner() == StepOwner::left ? "left" : "right"));
  return lines;
}

}  // namespace tw::layer_parallel
