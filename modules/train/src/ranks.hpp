// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <tw/comm/mesh.hpp>
#include <tw/train/model.hpp>

namespace tw::train {

/// Who trains. Communicators are borrowed.
struct Ranks {
  const Communicator& all;
  const Communicator& data;                   ///< which hold the same part of the model, and take different samples
  const Communicator* parts = nullptr;        ///< which hold one model together, and take the same samples; null: each rank has a whole one
  std::shared_ptr<const Mesh> of_parts = {};  ///< has `parts`, where they lie along several axes
};

/// Those of `mesh`. Collective. @throws ContractError when its axes are not those of the model
Ranks ranks_of(const Mesh& mesh, const Model& model);

/// Of the whole model. Collective over `ranks.parts`.
int64_t trained_elements(const Ranks& ranks, const Model& model);

/// @throws ContractError on every rank when one has no part of the model to train. Collective over all.
void expect_parameters(const Ranks& ranks, const Model& model);

}  // namespace tw::train
