// SPDX-License-Identifier: Apache-2.0
#include "stage_changes.hpp"

#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

#include "tensor_version.hpp"

namespace tw::pipeline {

StageChanges::StageChanges(const std::shared_ptr<torch::nn::Module>& module) {
  if (module == nullptr) return;
  for (const auto& named : {module->named_parameters(), module->named_buffers()}) {
    for (const auto& each : named) watched_.push_back({.name = each.key(), .tensor = each.value()});
  }
}

void StageChanges::begin() {
  for (Watched& each : watched_) each.version = version_of(each.tensor);
}

void StageChanges::end(int stage) {
  for (Watched& each : watched_) {
    if (version_of(each.tensor) == each.version) continue;
    if (each.changed_by >= 0 && each.changed_by != stage) {
      throw Error(concat("'", each.name, "' is changed by stage ", each.changed_by, " and by stage ", stage,
                         ", but only one stage may change a shared tensor: put everything that changes it on one stage"));
    }
    each.changed_by = stage;
  }
}

}  // namespace tw::pipeline
