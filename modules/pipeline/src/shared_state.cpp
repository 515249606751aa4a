// SPDX-License-Identifier: Apache-2.0
#include "shared_state.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/typed_objects.hpp>

#include "messages.hpp"
#include "tensor_version.hpp"

namespace tw::pipeline {
namespace {

struct Candidate {
  at::Tensor tensor;
  bool is_parameter = false;
};

/// Buffers and tied parameters, by the name that all devices use.
std::map<std::string, Candidate> candidates(const StageModel& model) {
  std::map<std::string, Candidate> found;
  const auto name_of = [&](const std::string& name) {
    const auto tied = model.tied.find(name);
    return tied == model.tied.end() ? name : tied->second;
  };
  for (const auto& each : model.module->named_buffers()) found.emplace(name_of(each.key()), Candidate{each.value(), false});
  for (const auto& each : model.module->named_parameters()) {
    if (model.tied.contains(each.key())) found.emplace(name_of(each.key()), Candidate{each.value(), true});
  }
  return found;
}

}  // namespace

SharedState::SharedState(const Communicator& comm, const StageRanks& ranks, const StageModel& model) : comm_(comm), ranks_(ranks) {
  const std::map<std::string, Candidate> mine = candidates(model);
  std::vector<std::string> names;
  for (const auto& [name, candidate] : mine) names.push_back(name);
  const auto of_ranks = allgather_objects(comm, names);
  std::map<std::string, std::vector<int>> devices;
  for (int device = 0; device < ranks.devices(); ++device) {
    for (const std::string& name : of_ranks[static_cast<size_t>(ranks.first_rank(device))]) devices[name].push_back(device);
  }
  for (const auto& [name, of_it] : devices) {
    if (of_it.size() < 2) continue;
    Entry entry{.name = name, .devices = of_it, .here = {}, .before = {}};
    if (const auto here = mine.find(name); here != mine.end()) {
      entry.here = here->second.tensor;
      entry.is_parameter = here->second.is_parameter;
    }
    entries_.push_back(std::move(entry));
  }
}

void SharedState::remember() {
  for (Entry& each : entries_) {
    if (!each.here.defined()) continue;
    each.version = version_of(each.here);
    if (!each.is_parameter) each.before = each.here.detach().clone();
  }
}

void SharedState::note_changes() {
  for (Entry& each : entries_) {
    if (!each.here.defined()) continue;
    const bool is_same = each.before.defined() ? is_unchanged(each.before, each.here.detach()) : each.version == version_of(each.here);
    each.is_changed = each.is_changed || !is_same;
    each.before = at::Tensor();
  }
}

void SharedState::exchange() {
  if (entries_.empty()) return;
  const at::NoGradGuard no_gradients;
  const int device = ranks_.device_of(comm_.rank());
  const at::Tensor changed = at::zeros({static_cast<int64_t>(entries_.size()), ranks_.devices()}, at::kByte);
  auto* flags = changed.mutable_data_ptr<uint8_t>();
  const auto devices = static_cast<size_t>(ranks_.devices());
  for (size_t i = 0; i < entries_.size(); ++i) {
    flags[i * devices + static_cast<size_t>(device)] = static_cast<uint8_t>(std::exchange(entries_[i].is_changed, false));
  }
  allreduce(comm_, changed, ReduceOp::max);
  std::vector<Work> sends;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    std::vector<int> changers;
    for (const int each : entry.devices) {
      if (flags[i * devices + static_cast<size_t>(each)] != 0) changers.push_back(each);
    }
    if (changers.empty()) continue;
    if (changers.size() > 1) {
      throw Error(concat("'", entry.name, "' is changed by ", ranks_.stage_names(changers[0]), " and by ", ranks_.stage_names(changers[1]),
                         ", but only one stage may change a shared tensor: put everything that changes it on one stage"));
    }
    const int home = ranks_.first_rank(changers.front());
    for (int rank = 0; rank < comm_.size(); ++rank) {
      const int of_rank = ranks_.device_of(rank);
      if (of_rank == changers.front() || std::ranges::find(entry.devices, of_rank) == entry.devices.end()) continue;
      if (comm_.rank() == home) send_state(comm_, entry.here.detach(), Rank(rank), sends);
      if (comm_.rank() == rank) receive_state(comm_, entry.here.detach(), Rank(home));
    }
  }
  wait_all(sends);
}

}  // namespace tw::pipeline
