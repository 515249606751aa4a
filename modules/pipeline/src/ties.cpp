// SPDX-License-Identifier: Apache-2.0
#include "ties.hpp"

#include <algorithm>
#include <map>
#include <tw/base/contract.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/tensor/tensor_spec.hpp>

#include "sparse_parameters.hpp"

namespace tw::pipeline {
namespace {

/// One tensor of a device.
struct Entry {
  std::string of_all = {};  // the name that all devices use, if it is tied
  std::string name = {};    // its name on this device; empty: the device has no such tensor
  std::string spec = {};    // without name
  std::string first = {};   // first name of the same tensor on this device; empty for a buffer, which cannot be tied
  bool is_sparse = false;   // whether its gradient is
  static constexpr auto fields = std::tuple(&Entry::of_all, &Entry::name, &Entry::spec, &Entry::first, &Entry::is_sparse);
  bool operator==(const Entry&) const = default;
};

std::vector<Entry> entries_of(const StageModel& model) {
  std::vector<Entry> entries;
  const auto spec = [](const at::Tensor& t) { return TensorSpec{"", t.sizes().vec(), t.scalar_type()}.describe(); };
  std::map<const c10::TensorImpl*, std::string> firsts;
  const std::vector<std::string> sparse = sparse_parameters_of(model);
  for (const auto& p : model.module->named_parameters()) {
    const auto tie = model.tied.find(p.key());
    const std::string& first = firsts.emplace(p.value().unsafeGetTensorImpl(), p.key()).first->second;
    entries.push_back({tie == model.tied.end() ? "" : tie->second, p.key(),
                       spec(p.value()) + (p.value().requires_grad() ? ", trained" : ", not trained"), first,
                       std::ranges::find(sparse, first) != sparse.end()});
  }
  for (const auto& [name, of_all] : model.tied) {
    if (!model.module->named_parameters().contains(name) && !model.module->named_buffers().contains(name)) entries.push_back({.of_all = of_all});
  }
  for (const auto& b : model.module->named_buffers()) entries.push_back({.name = b.key(), .spec = spec(b.value())});
  return entries;
}

}  // namespace

std::vector<Tie> agree_on_ties(const Communicator& comm, const StageRanks& ranks, const StageModel& model) {
  const auto of_ranks = allgather_objects(comm, entries_of(model));
  for (int rank = 0; rank < comm.size(); ++rank) {
    const int device = ranks.device_of(rank);
    const int first = ranks.first_rank(device);
    TW_EXPECTS(of_ranks[static_cast<size_t>(rank)] == of_ranks[static_cast<size_t>(first)], "ranks ", first, " and ", rank, " both have ",
               ranks.stage_names(device), ", but different parameters or buffers");
  }
  std::map<std::string, Tie> ties;
  std::map<std::string, std::string> specs;  // descriptions of tied parameters
  std::map<std::string, int> homes;          // devices of untied names
  for (int device = 0; device < ranks.devices(); ++device) {
    const std::string here = ranks.stage_names(device);
    std::map<std::string, std::string> tensors;  // of this device, by tie
    for (const auto& [of_all, name, spec, first, is_sparse] : of_ranks[static_cast<size_t>(ranks.first_rank(device))]) {
      if (first.empty() && !name.empty()) continue;
      TW_EXPECTS(!name.empty(), here, ": there is no parameter that is tied as '", of_all, "'");
      if (of_all.empty()) {
        const auto [home, is_new] = homes.emplace(name, device);
        TW_EXPECTS(is_new, ranks.stage_names(home->second), " and ", here, " both have a parameter '", name, "': list it in StageModel::tied");
        continue;
      }
      TW_EXPECTS(!is_sparse, "parameter '", of_all,
                 "' has sparse gradients, but several stages use it, and these sum dense gradients only: make its ", "embedding with sparse(false)");
      const std::string& one = tensors.emplace(of_all, first).first->second;
      TW_EXPECTS(one == first, here, ": '", one, "' and '", name, "' are tied as '", of_all, "', but they are two tensors");
      const std::string& of_first = specs.emplace(of_all, spec).first->second;
      TW_EXPECTS(of_first == spec, "parameter '", of_all, "' is tied, but it is", of_first, " on one stage and", spec, " on ", here);
      Tie& tie = ties[of_all];
      tie.name = of_all;
      if (std::find(tie.names.begin(), tie.names.end(), name) == tie.names.end()) tie.names.push_back(name);
      if (tie.devices.empty() || tie.devices.back() != device) tie.devices.push_back(device);
    }
  }
  std::vector<Tie> all;
  for (auto& [name, tie] : ties) {
    TW_EXPECTS(!homes.contains(name), ranks.stage_names(homes[name]), ": there is a parameter '", name,
               "', which other stages tie, but these do not: list it in StageModel::tied");
    const int first = tie.devices.front();
    if (tie.devices.size() == 1 && ranks.stages_of(first).size() > 1) continue;  // a tie between stages of one device is one tensor
    TW_EXPECTS(tie.devices.size() > 1, "parameter '", name, "' is tied on ", ranks.stage_names(first),
               " only: a tie needs two devices of the schedule");
    all.push_back(std::move(tie));
  }
  return all;
}

}  // namespace tw::pipeline
