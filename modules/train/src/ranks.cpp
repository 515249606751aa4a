// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

#include <algorithm>
#include <map>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/typed_objects.hpp>

namespace tw::train {

Ranks ranks_of(const Mesh& mesh, const Model& model) {
  const auto& axes = mesh.shape().axes();
  const bool whole = axes.size() == 1 && axes[0].name == "data";  // one communicator suffices
  Ranks ranks{.all = mesh.comm(), .data = whole ? mesh.comm() : mesh["data"]};
  const std::vector<std::string> of_model = model.trained->axes();
  std::vector<std::string> of_parts;
  for (const MeshAxis& axis : axes) {
    if (axis.name == "data") continue;
    TW_EXPECTS(std::ranges::find(of_model, axis.name) != of_model.end(), "the mesh ", mesh.shape().describe(), " has an axis '", axis.name,
               "' along which the model is not split");
    of_parts.push_back(axis.name);
  }
  for (const std::string& axis : of_model) {
    TW_EXPECTS(std::ranges::find(of_parts, axis) != of_parts.end(), "the model is split along '", axis, "', an axis that the mesh ",
               mesh.shape().describe(), " does not have");
  }
  if (of_parts.size() == 1) ranks.parts = &mesh[of_parts.front()];
  if (of_parts.size() > 1) {
    ranks.of_parts = std::make_shared<const Mesh>(mesh.sub(of_parts));
    ranks.parts = &ranks.of_parts->comm();
  }
  return ranks;
}

namespace {
struct SliceSize {
  std::string name;
  std::vector<int64_t> offsets;
  int64_t elements;
  static constexpr auto fields = std::tuple(&SliceSize::name, &SliceSize::offsets, &SliceSize::elements);
};
}  // namespace

int64_t trained_elements(const Ranks& ranks, const Model& model) {
  const int64_t here = model.trained_elements();
  if (ranks.parts == nullptr) return here;
  std::vector<SliceSize> mine;
  for (const OptimizedTensor& tensor : model.trained->optimized_tensors()) {
    for (const NamedShard& slice : tensor.slices) mine.push_back({slice.name, slice.offsets, slice.tensor.numel()});
  }
  std::map<std::pair<std::string, std::vector<int64_t>>, int64_t> slices;  // several ranks may have the same
  for (const std::vector<SliceSize>& of_rank : allgather_objects(*ranks.parts, mine)) {
    for (const SliceSize& each : of_rank) slices[{each.name, each.offsets}] = each.elements;
  }
  int64_t all = 0;
  for (const auto& [slice, elements] : slices) all += elements;
  return all;
}

void expect_parameters(const Ranks& ranks, const Model& model) {
  if (ranks.parts == nullptr) return;
  on_all_ranks(ranks.all, "dividing the model", [&] {
    TW_EXPECTS(model.trained_elements() > 0, "a rank has no part of the model to train: the axis '", model.trained->axes().back(),
               "' is too long for it");
  });
}

}  // namespace tw::train
