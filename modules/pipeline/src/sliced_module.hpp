// SPDX-License-Identifier: Apache-2.0
// A module to plan of which each rank holds slices.
#pragma once
#include <torch/nn/module.h>

#include <string>
#include <tw/gradients/model_parts.hpp>
#include <tw/graph/capture_modes.hpp>
#include <vector>

namespace tw::pipeline {

/// Keeps a layer's slices in the module of a stage. It has no code: the stage runs captured operators.
class SlicesOfStage : public torch::nn::Module, public SlicedModule {
 public:
  /// @param of the layer in the module that was planned
  explicit SlicesOfStage(const SlicedModule& of);
  /// Call when parameter `name` has been registered; it may be a slice or not.
  void note(const std::string& name);

  const Communicator& holders() const noexcept override { return holders_; }
  const std::vector<SlicedParameter>& sliced_parameters() const noexcept override { return here_; }

 private:
  Communicator holders_;
  std::vector<SlicedParameter> all_;   // of the layer
  std::vector<SlicedParameter> here_;  // of this stage
};

/// Makes the module at `path` of a stage: a SlicesOfStage if `whole` has a SlicedModule there, otherwise a plain one.
std::shared_ptr<torch::nn::Module> stage_module_at(const std::string& path, const torch::nn::Module& whole);

/// Checks that all ranks have captured the same operators, with the same sizes on all ranks that hold the same slices; sizes of slices may differ.
/// Makes Graph::min_rows equal on all ranks. Collective over `comm`. @param slices the ranks with which this one holds slices, all in `comm`; null:
/// it holds none
/// @throws ContractError on every rank
void expect_same_operators(const Communicator& comm, const Communicator* slices, graph::ModeGraphs& captured);

}  // namespace tw::pipeline
