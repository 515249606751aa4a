// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <string>
#include <tw/gradients/sparse_gradients.hpp>
#include <tw/pipeline/stage_model.hpp>
#include <vector>

namespace tw::pipeline {

/// Names of the stage's trained parameters whose gradients are sparse.
inline std::vector<std::string> sparse_parameters_of(const StageModel& model) {
  std::vector<std::string> names = sparse_gradients_of(*model.module);
  for (const std::string& each : model.sparse) {
    if (std::ranges::find(names, each) == names.end()) names.push_back(each);
  }
  return names;
}

}  // namespace tw::pipeline
