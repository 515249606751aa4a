// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

#include <tw/base/contract.hpp>

#include "evaluate.hpp"

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
  return ranks.parts == nullptr ? here : static_cast<int64_t>(sum_over_ranks(*ranks.parts, {static_cast<double>(here)})[0]);
}

void expect_parameters(const Ranks& ranks, const Model& model) {
  if (ranks.parts == nullptr) return;
  const double without = sum_over_ranks(ranks.all, {model.trained_elements() == 0 ? 1.0 : 0.0})[0];
  TW_EXPECTS(without == 0, without, " ranks have no part of the model to train: the axis '", model.parts->axis, "' is too long for it");
}

}  // namespace tw::train
