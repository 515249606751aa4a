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

/// Which slice of a parameter this rank holds.
struct Split {
  std::string name;                   ///< of the parameter in its module
  std::vector<int64_t> global_shape;  ///< of the whole
  std::vector<int64_t> offsets;       ///< where the slice begins, one per dimension; its lengths are those of the parameter
};

/// A module with parameters of which every rank of the `tensor` axis holds a slice: the base of the layers here.
class SplitModule : public torch::nn::Module, public SlicedModule {
 public:
  /// Its split parameters; the others are replicated.
  const std::vector<Split>& splits() const noexcept { return splits_; }
  /// All its parameters for checkpoints, which any number of ranks can load. @param prefix its name in the model, such as "hidden"; "" for none.
  std::vector<NamedShard> shards(const std::string& prefix = "") const;
  const Communicator& holders() const noexcept override { return comm_; }
  std::vector<std::string> sliced_parameters() const override;

 protected:
  /// @param comm of the `tensor` axis; shared, not duplicated.
  explicit SplitModule(const Communicator& comm);

  const Communicator& comm() const noexcept { return comm_; }
  /// Registers a copy of this rank's slice of `whole` along `dimension` as parameter `name`.
  at::Tensor register_slice(const std::string& name, const at::Tensor& whole, int64_t dimension);

 private:
  Communicator comm_;
  std::vector<Split> splits_;
};

/// `shards` with those that belong to split parameters of `model` marked as the slices they are, so that checkpoints of a model with split and
/// ordinary modules re-shard between any numbers of ranks.
/// @param model a SplitModule, or one that contains some. @param shards what `tw::module_shards(model)` gave, or `tw::OptimizerState::shards()`,
/// whose
///              tensors have the shapes of their parameters; both take every parameter for whole.
std::vector<NamedShard> sliced(const torch::nn::Module& model, std::vector<NamedShard> shards);

}  // namespace tw::tensor_parallel
