// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <tw/gradients/model_parts.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw::tensor_parallel {

/// Base of tensor-parallel layers: a module with parameters that are split over the ranks of the mesh axis `tensor`.
class SplitModule : public torch::nn::Module, public SlicedModule {
 public:
  /// All parameters, for checkpoints that any number of ranks can load. @param prefix the module's name in the model, such as "hidden"; "" for none.
  std::vector<NamedShard> shards(const std::string& prefix = "") const;
  const Communicator& holders() const noexcept override { return comm_; }
  const std::vector<SlicedParameter>& sliced_parameters() const noexcept override { return slices_; }

 protected:
  /// @param comm the axis `tensor`; shared, not duplicated.
  explicit SplitModule(const Communicator& comm);

  const Communicator& comm() const noexcept { return comm_; }
  /// Registers a copy of this rank's slice of `whole` along `dimension` as parameter `name`.
  at::Tensor register_slice(const std::string& name, const at::Tensor& whole, int64_t dimension);

 private:
  Communicator comm_;
  std::vector<SlicedParameter> slices_;
};

/// Returns `shards`, with the shards of the split parameters of `model` marked as slices. Checkpoints of a model with split and ordinary modules can
/// then be loaded on any number of ranks.
/// @param model a SplitModule, or a module that contains some. @param shards the result of `tw::module_shards(model)` or
/// `tw::OptimizerState::shards()`, which both treat every parameter as whole. Optimizer state must have the shapes of the parameters.
std::vector<NamedShard> sliced(const torch::nn::Module& model, std::vector<NamedShard> shards);

}  // namespace tw::tensor_parallel
