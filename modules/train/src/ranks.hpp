// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <tw/comm/mesh.hpp>
#include <tw/train/mesh_sizes.hpp>
#include <tw/train/model.hpp>

namespace tw::train {

/// The ranks that train. Communicators are borrowed, or owned by `owner`. A null communicator stands for this rank alone.
struct Ranks {
  const Communicator& all;
  const Communicator& samples;            ///< ranks that hold the same part of the model and train on different samples
  const Communicator& data;               ///< those ranks of `samples` with the same elements
  const Communicator* shard = nullptr;    ///< those ranks of `samples` with different elements
  const Communicator* parts = nullptr;    ///< ranks that hold one model together and train on the same samples
  const Communicator* replica = nullptr;  ///< ranks along `shard` and those of `parts`: together they have each element of the model
  const Communicator* slices = nullptr;   ///< ranks along `tensor`, with other slices of this rank's layers
  std::string mesh = {};                  ///< its axes of more than one rank, such as "data=2 x stage=4"
  std::shared_ptr<const void> owner = nullptr;

  MeshSizes sizes() const;
};

/// The ranks of `mesh`. Collective. @throws ContractError if its axes are not those of the model, `data` and `shard`
Ranks ranks_of(const Mesh& mesh, const Model& model);

/// Trained elements of the whole model. Collective over `ranks.parts`.
int64_t trained_elements(const Ranks& ranks, const Model& model);

/// @throws ContractError on every rank if one of them has no part of the model to train. Collective over all.
void expect_parameters(const Ranks& ranks, const Model& model);

}  // namespace tw::train
