// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

#include <map>
#include <sstream>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>

namespace tw::train {

Ranks ranks_of(const Mesh& mesh, const Model& model) {
  const auto& axes = mesh.shape().axes();
  const bool whole = axes.size() == 1 && axes[0].name == "data";  // one communicator is enough then
  Ranks ranks{.all = mesh.comm(), .data = whole ? mesh.comm() : mesh["data"]};
  for (const MeshAxis& axis : axes) {
    if (axis.name == "data") continue;
    TW_EXPECTS(model.parts && model.parts->axis == axis.name, "the mesh ", mesh.shape().describe(), " has an axis '", axis.name,
               "' along which the model is not in parts");
    ranks.parts = &mesh[axis.name];
  }
  TW_EXPECTS(!model.parts || ranks.parts != nullptr, "the model is in parts along '", model.parts ? model.parts->axis : "",
             "', an axis that the mesh ", mesh.shape().describe(), " does not have");
  return ranks;
}

int64_t trained_elements(const Ranks& ranks, const Model& model) {
  const int64_t here = model.trained_elements();
  if (ranks.parts == nullptr) return here;
  std::string mine;  // each slice, for several ranks may have the same
  for (const OptimizedTensor& tensor : model.parts->optimized_tensors()) {
    for (const NamedShard& slice : tensor.slices) mine += concat(slice.name, ' ', at::IntArrayRef(slice.offsets), '\t', slice.tensor.numel(), '\n');
  }
  std::map<std::string, int64_t> slices;
  for (const std::string& of_rank : allgather_strings(*ranks.parts, mine)) {
    std::istringstream lines(of_rank);
    for (std::string line; std::getline(lines, line);) slices[line.substr(0, line.find('\t'))] = std::stoll(line.substr(line.find('\t') + 1));
  }
  int64_t all = 0;
  for (const auto& [slice, elements] : slices) all += elements;
  return all;
}

void expect_parameters(const Ranks& ranks, const Model& model) {
  if (ranks.parts == nullptr) return;
  on_all_ranks(ranks.all, "sharing out the model", [&] {
    TW_EXPECTS(model.trained_elements() > 0, "no part of the model is left to train: the axis '", model.parts->axis, "' is too long for it");
  });
}

}  // namespace tw::train
