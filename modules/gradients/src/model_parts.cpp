// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/module.h>

#include <tw/gradients/model_parts.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/mpi/library.hpp>
#include <tw/tensor/content_hash.hpp>
#include <utility>

namespace tw {
namespace {

using Identities = std::set<const c10::TensorImpl*>;

/// The slices of sliced modules with the same holders.
struct SlicesOf {
  const Communicator* holders;
  Identities slices;
};

std::vector<SlicesOf> slices_by_holders(const torch::nn::Module& module) {
  std::vector<SlicesOf> all;
  const auto add = [&](const torch::nn::Module& each) {
    const auto* sliced = dynamic_cast<const SlicedModule*>(&each);
    if (sliced == nullptr) return;
    const Communicator& holders = sliced->holders();
    auto known = std::find_if(all.begin(), all.end(), [&](const SlicesOf& other) { return other.holders->state() == holders.state(); });
    if (known == all.end()) known = all.insert(all.end(), {&holders, {}});
    const auto parameters = each.named_parameters(false);
    for (const SlicedParameter& slice : sliced->sliced_parameters()) known->slices.insert(parameters[slice.name].unsafeGetTensorImpl());
  };
  add(module);
  for (const auto& child : module.modules(false)) add(*child);
  return all;
}

/// A tensor's part of the whole model; empty: it has none.
std::string slice_of(const OptimizedTensor& tensor) {
  if (tensor.slices.empty()) return "";
  const NamedShard& first = tensor.slices.front();
  return concat(first.name, ' ', at::IntArrayRef(first.offsets), ' ', first.tensor.sizes());
}

/// By slice of the whole model, in the same order on all ranks: ranks that hold it, ascending.
std::map<std::string, std::vector<int>> holders_of_slices(const Communicator& ranks, const std::vector<std::string>& slices) {
  std::map<std::string, std::vector<int>> holders;
  const auto of_ranks = allgather_objects(ranks, slices);
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    for (const std::string& slice : of_ranks[rank]) holders[slice].push_back(static_cast<int>(rank));
  }
  return holders;
}

std::string hashes_of(const std::vector<std::string>& names, const std::map<std::string, at::Tensor>& tensors) {
  std::string hashes;  // 8 bytes each
  for (const std::string& name : names) {
    const auto found = tensors.find(name);
    const uint64_t hash = found == tensors.end() ? 0 : content_hash(found->second);
    hashes.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
  }
  return hashes;
}

}  // namespace

std::map<std::string, SlicedParameter> slices_by_name(const torch::nn::Module& model) {
  std::map<const c10::TensorImpl*, SlicedParameter> by_tensor;
  const auto add = [&](const torch::nn::Module& module) {
    const auto* sliced = dynamic_cast<const SlicedModule*>(&module);
    if (sliced == nullptr) return;
    const auto parameters = module.named_parameters(false);
    for (const SlicedParameter& slice : sliced->sliced_parameters()) by_tensor.emplace(parameters[slice.name].unsafeGetTensorImpl(), slice);
  };
  add(model);
  for (const auto& module : model.modules(false)) add(*module);

  std::map<std::string, SlicedParameter> by_name;
  for (const auto& parameter : model.named_parameters()) {
    const auto found = by_tensor.find(parameter.value().unsafeGetTensorImpl());
    if (found != by_tensor.end()) by_name.emplace(parameter.key(), found->second);
  }
  return by_name;
}

const Communicator* slice_holders(const torch::nn::Module& model) {
  const std::vector<SlicesOf> all = slices_by_holders(model);
  TW_EXPECTS(all.size() < 2, "the model's split layers communicate on '", all[0].holders->name(), "' and on '", all[1].holders->name(),
             "': make all of them with one communicator");
  return all.empty() ? nullptr : all.front().holders;
}

ModelPartsList model_parts(const torch::nn::Module& module) {
  ModelPartsList list;
  const ModelTensors tensors = model_tensors(module);
  for (const SlicesOf& sliced : slices_by_holders(module)) {
    auto parts = std::make_shared<ModelParts>(ModelParts{mpi::share(*sliced.holders)});
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors.all_tensors()) {
      if (!sliced.slices.contains(tensor.unsafeGetTensorImpl())) names.push_back(name);
    }
    if (sliced.holders->rank() != 0) parts->counted_elsewhere = {names.begin(), names.end()};
    parts->replicated.push_back({mpi::share(*sliced.holders), std::move(names)});
    list.push_back(std::move(parts));
  }
  const auto* trained = dynamic_cast<const TrainableModel*>(&module);
  if (trained != nullptr && trained->holders() != nullptr) list.push_back(model_parts(*trained->holders(), *trained));
  return list;
}

std::shared_ptr<const ModelParts> model_parts(const Communicator& ranks, const TrainableModel& model) {
  const std::vector<NamedTensor> parameters = model.tensors().parameters;
  std::map<std::string, std::string> mine;  // slices of the whole model, with their parameters' names on this rank
  for (const OptimizedTensor& optimized : model.optimized_tensors()) {
    const auto parameter =
        std::find_if(parameters.begin(), parameters.end(), [&](const NamedTensor& each) { return each.tensor.is_same(optimized.tensor); });
    if (parameter == parameters.end() || optimized.slices.empty()) continue;
    mine.emplace(slice_of(optimized), parameter->name);
  }
  std::vector<std::string> here;
  for (const auto& [slice, name] : mine) here.push_back(slice);
  std::map<std::vector<int>, std::vector<std::string>> sets;  // by set of two or more holders: slices they share
  for (const auto& [slice, holders] : holders_of_slices(ranks, here)) {
    if (holders.size() > 1) sets[holders].push_back(slice);
  }
  auto parts = std::make_shared<ModelParts>(ModelParts{mpi::share(ranks)});
  for (const auto& [holders, slices] : sets) {
    const bool holds = std::find(holders.begin(), holders.end(), ranks.rank()) != holders.end();
    Communicator among = ranks.split(holds ? 1 : 0, ranks.rank());
    if (!holds) continue;
    std::vector<std::string> names;
    for (const std::string& slice : slices) names.push_back(mine.at(slice));
    if (holders.front() != ranks.rank()) parts->counted_elsewhere.insert(names.begin(), names.end());
    parts->replicated.push_back({std::move(among), std::move(names)});
  }
  return parts;
}

std::vector<uint8_t> counted_here(const Communicator* ranks, const std::vector<OptimizedTensor>& tensors) {
  if (ranks == nullptr) return std::vector<uint8_t>(tensors.size(), 1);
  std::vector<std::string> mine;
  for (const OptimizedTensor& each : tensors) mine.push_back(slice_of(each));
  const auto holders = holders_of_slices(*ranks, mine);
  std::vector<uint8_t> counted;
  for (const std::string& each : mine) counted.push_back(holders.at(each).front() == ranks->rank() ? 1 : 0);
  return counted;
}

void expect_equal_replicas(const ModelPartsList& parts, const std::vector<NamedTensor>& tensors) {
  std::map<std::string, at::Tensor> by_name;
  for (const auto& [name, tensor] : tensors) by_name.emplace(name, tensor);
  std::string problem;  // the first one found; the other sets are compared anyway, because their ranks wait
  for (const auto& part : parts) {
    for (const auto& [holders, names] : part->replicated) {
      const std::string mine = hashes_of(names, by_name);
      if (all_agree(holders, mine)) continue;
      const std::vector<std::string> all = allgather_strings(holders, mine);
      for (size_t i = 0; i < names.size(); ++i) {
        for (size_t rank = 1; rank < all.size(); ++rank) {
          const size_t place = i * sizeof(uint64_t);
          if (!problem.empty() || all[rank].compare(place, sizeof(uint64_t), all[0], place, sizeof(uint64_t)) == 0) continue;
          problem = concat("'", names[i], "' is replicated, but differs between ranks 0 and ", rank, " of '", holders.name(),
                           "': construct layers that are not split from the same seed on all ranks of their axis, or call synchronize(comm, model) "
                           "over that axis");
        }
      }
    }
  }
  TW_EXPECTS(problem.empty(), problem);
}

}  // namespace tw
