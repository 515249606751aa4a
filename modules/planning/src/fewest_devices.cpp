// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <tw/base/numbers.hpp>

#include "stage_table.hpp"

namespace tw::pipeline {

Candidate fewest_devices(const BlockCostTable& costs, const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options) {
  SearchSetting any = setting;
  any.min_stages = 1;
  const StageTable table(costs, any, cluster, options);
  const int blocks = table.blocks();
  const int max_stages = std::min(setting.max_stages, blocks);
  struct Choice {
    int devices = std::numeric_limits<int>::max() / 2;
    StageChoice stage;
  };
  std::vector<std::vector<Choice>> best(static_cast<size_t>(max_stages) + 1, std::vector<Choice>(static_cast<size_t>(blocks) + 1));
  best[0][static_cast<size_t>(blocks)].devices = 0;
  Candidate fewest{.setting = setting, .objective = infinity};
  for (int stages = 1; stages <= max_stages; ++stages) {
    const auto& rest = best[static_cast<size_t>(stages) - 1];
    for (int begin = blocks - stages; begin >= 0; --begin) {
      Choice& choice = best[static_cast<size_t>(stages)][static_cast<size_t>(begin)];
      for (int end = begin + 1; end <= blocks; ++end) {
        for (size_t which = 0; which < table.replicas().size(); ++which) {
          const int devices = table.replicas()[which] + rest[static_cast<size_t>(end)].devices;
          if (devices >= choice.devices) break;
          if (table.find(which, begin, end, setting.in_flight(stages)) == nullptr) continue;
          choice = {devices, {.end = end, .replicas = table.replicas()[which]}};
          break;
        }
      }
    }
    const int devices = best[static_cast<size_t>(stages)][0].devices;
    if (devices > setting.devices || devices >= fewest.objective) continue;
    fewest.objective = devices;
    fewest.stages.clear();
    for (int left = stages, begin = 0; left > 0; --left) {
      fewest.stages.push_back(best[static_cast<size_t>(left)][static_cast<size_t>(begin)].stage);
      begin = fewest.stages.back().end;
    }
  }
  return fewest;
}

}  // namespace tw::pipeline
