// SPDX-License-Identifier: Apache-2.0
#include "stage_changes.hpp"

#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <utility>

#include "tensor_version.hpp"

namespace tw::pipeline {

StageChanges::StageChanges(const std::shared_ptr<torch::nn::Module>& module) {
  if (module == nullptr) return;
  for (const auto& each : module->named_parameters()) watched_.push_back({.name = each.key(), .tensor = each.value()});
  for (const auto& each : module->named_buffers()) watched_.push_back({.name = each.key(), .tensor = each.value(), .is_buffer = true});
}

void StageChanges::begin(int stage) {
  is_watching_ = seen_.insert(stage).second;
  if (!is_watching_) return;
  for (Watched& each : watched_) {
    if (each.is_buffer) {
      each.before = each.tensor.detach().clone();
    } else {
      each.version = version_of(each.tensor);
    }
  }
}

void StageChanges::end(int stage) {
  if (!is_watching_) return;
  for (Watched& each : watched_) {
    const at::Tensor before = std::exchange(each.before, at::Tensor());
    if (each.is_buffer ? is_unchanged(before, each.tensor.detach()) : version_of(each.tensor) == each.version) continue;
    if (each.changed_by >= 0 && each.changed_by != stage) {
      throw Error(concat("'", each.name, "' is changed by stage ", each.changed_by, " and by stage ", stage,
                         ", but only one stage may change a shared tensor: put everything that changes it on one stage"));
    }
    each.changed_by = stage;
  }
}

}  // namespace tw::pipeline
