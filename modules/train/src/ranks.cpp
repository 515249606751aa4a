// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

#include <ATen/ops/full.h>

#include <algorithm>
#include <optional>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/ranks_along.hpp>
#include <tw/gradients/model_parts.hpp>

namespace tw::train {

namespace {

/// The communicators that a mesh does not have.
struct OwnedRanks {
  RanksAlong samples;
  RanksAlong parts;
  RanksAlong replica;
  std::optional<Communicator> alone = std::nullopt;  // this rank
};

void expect_axes_of(const Model& model, const MeshShape& mesh) {
  const std::vector<std::string> of_model = model.trained->axes();
  for (const MeshAxis& axis : mesh.axes()) {
    const bool is_known = std::ranges::find(of_model, axis.name) != of_model.end() || std::ranges::find(sample_axes, axis.name) != sample_axes.end();
    TW_EXPECTS(axis.size == 1 || is_known, "the mesh ", mesh.describe(), " has an axis '", axis.name, "' along which the model is not split");
  }
  for (const std::string& axis : of_model) {
    const bool is_there = std::ranges::any_of(mesh.axes(), [&](const MeshAxis& each) { return each.name == axis; });
    TW_EXPECTS(is_there, "the model is split along '", axis, "', an axis that the mesh ", mesh.describe(), " does not have");
  }
}

std::string described(const MeshShape& mesh) {
  std::vector<MeshAxis> axes = mesh.axes();
  std::erase_if(axes, [](const MeshAxis& axis) { return axis.size == 1; });
  return axes.empty() ? "one rank" : MeshShape(mesh.ranks(), std::move(axes)).describe();
}

}  // namespace

MeshSizes Ranks::sizes() const {
  const auto size_of = [](const Communicator* comm) { return comm == nullptr ? 1 : comm->size(); };
  return {.data = data.size(), .shard = size_of(shard), .parts = size_of(parts)};
}

Ranks ranks_of(const Mesh& mesh, const Model& model) {
  expect_axes_of(model, mesh.shape());
  const std::vector<std::string> of_model = model.trained->axes();
  std::vector<std::string> of_replica = of_model;
  of_replica.emplace_back("shard");
  const auto owned =
      std::make_shared<OwnedRanks>(OwnedRanks{RanksAlong(mesh, sample_axes), RanksAlong(mesh, of_model), RanksAlong(mesh, of_replica)});
  const int replicas = size_along(mesh.shape(), "data");
  const int shards = size_along(mesh.shape(), "shard");
  if (replicas == 1 && mesh.comm().size() > 1) owned->alone.emplace(mesh.comm().split(mesh.comm().rank(), 0));
  const auto line = [&](const char* axis, int size) -> const Communicator* {
    if (size == mesh.comm().size()) return &mesh.comm();
    return size > 1 ? &mesh[axis] : nullptr;
  };
  const Communicator* const data = replicas > 1 || !owned->alone ? line("data", replicas) : &*owned->alone;
  const Communicator* parts = owned->parts.comm();
  if (parts == nullptr && !of_model.empty()) parts = &mesh[of_model.front()];
  const Communicator* const samples = owned->samples.size() == mesh.comm().size() ? &mesh.comm() : owned->samples.comm();
  return {.all = mesh.comm(),
          .samples = samples != nullptr ? *samples : *data,
          .data = *data,
          .shard = shards > 1 ? line("shard", shards) : nullptr,
          .parts = parts,
          .replica = owned->replica.size() > 1 ? owned->replica.comm() : parts,
          .slices = line("tensor", size_along(mesh.shape(), "tensor")),
          .mesh = described(mesh.shape()),
          .owner = owned};
}

int64_t trained_elements(const Ranks& ranks, const Model& model) {
  if (ranks.parts == nullptr) return model.trained_elements();
  const std::vector<OptimizedTensor> tensors = model.trained->trained_tensors();
  const std::vector<uint8_t> counted = counted_here(ranks.parts, tensors);
  int64_t here = 0;
  for (size_t i = 0; i < tensors.size(); ++i) here += counted[i] != 0 ? tensors[i].tensor.numel() : 0;
  const at::Tensor all = at::full({}, here, at::kLong);
  allreduce(*ranks.parts, all, ReduceOp::sum);
  return all.item<int64_t>();
}

void expect_parameters(const Ranks& ranks, const Model& model) {
  if (ranks.parts == nullptr) return;
  on_all_ranks(ranks.all, "dividing the model", [&] {
    TW_EXPECTS(model.trained_elements() > 0, "this rank has no part of the model to train: the axis '", model.trained->axes().back(),
               "' has too many ranks for this model");
  });
}

}  // namespace tw::train
