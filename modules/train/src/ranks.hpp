// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <tw/comm/mesh.hpp>
#include <tw/train/model.hpp>

namespace tw::train {

/// The ranks that train. Communicators are borrowed.
struct Ranks {
  const Communicator& all;
  const Communicator& data;                   ///< ranks that hold the same part of the model and train on different samples
  const Communicator* parts = nullptr;        ///< ranks that hold one model together and train on the same samples; null: each rank has a whole model
  std::shared_ptr<const Mesh> of_parts = {};  ///< owns `parts`, if they lie along several axes
};

/// The ranks of `mesh`. Collective. @throws ContractError if its axes are not those of the model
Ranks ranks_of(const Mesh& mesh, const Model& model);

/// Trained elements of the whole model. Collective over `ranks.parts`.
int64_t trained_elements(const Ranks& ranks, const Model& model);

/// @throws ContractError on every rank if one has nothing of the model to train. Collective over all.
void expect_parameters(const Ranks& ranks, const Model& model);

}  // namespace tw::train
