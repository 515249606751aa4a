// SPDX-License-Identifier: Apache-2.0
// Models whose parts lie on several ranks: which ranks hold the model together, and which parameters are replicated.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tw/gradients/trainable_model.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// Parameters, or slices of parameters, of which several ranks hold equal copies.
struct ReplicatedParameters {
  Communicator holders;
  std::vector<std::string> names;  ///< names on this rank; in the same order on all holders
};

/// The ranks that hold one model in parts, as this rank sees them.
struct ModelParts {
  Communicator ranks;
  std::vector<ReplicatedParameters> replicated = {};  ///< the replicated parameters of this rank, one entry for each set of holders
  std::set<std::string> counted_elsewhere = {};       ///< parameters whose elements another rank counts, such as in a norm
};
/// Model parts along several mesh axes, one entry per axis.
using ModelPartsList = std::vector<std::shared_ptr<const ModelParts>>;

/// A parameter of which a rank holds a slice.
struct SlicedParameter {
  std::string name;                   ///< name in the SlicedModule
  std::vector<int64_t> global_shape;  ///< shape of the whole parameter
  std::vector<int64_t> offsets;       ///< where the slice begins, by dimension; its lengths are the sizes of the parameter on this rank
};

/// A module with parameters of which each rank holds a slice, such as a tensor-parallel layer.
class SlicedModule {
 public:
  virtual ~SlicedModule() = default;
  /// The ranks that hold the slices, including this one.
  virtual const Communicator& holders() const noexcept = 0;
  /// The module's own parameters that are slices. Its other parameters are replicated.
  virtual const std::vector<SlicedParameter>& sliced_parameters() const noexcept = 0;

 protected:
  SlicedModule() = default;
  SlicedModule(const SlicedModule&) = default;
  SlicedModule& operator=(const SlicedModule&) = default;
};

/// The ranks that hold the slices in `model`, which is or contains a SlicedModule; null if it does not. Local.
/// @throws ContractError if SlicedModules have different communicators
const Communicator* slice_holders(const torch::nn::Module& model);

/// The slices in `model`, which is or contains a SlicedModule, by parameter name. A tied parameter appears under each of its names.
std::map<std::string, SlicedParameter> slices_by_name(const torch::nn::Module& model);

/// The parts of `module`. The SlicedModules in it define the holders of slices; all other parameters and buffers are replicated on these holders. If
/// `module` is a TrainableModel that knows its TrainableModel::holders(), such as a Pipeline, the model's own parts are appended, and the call is
/// collective over those holders. Otherwise the call is local.
ModelPartsList model_parts(const torch::nn::Module& module);

/// The parts of `model`: tensors that several ranks map to the same place in the whole model (see OptimizedTensor) are replicated. Collective over
/// `ranks`.
/// @param ranks the ranks that hold `model` together
std::shared_ptr<const ModelParts> model_parts(const Communicator& ranks, const TrainableModel& model);

/// Compares the replicated tensors among `tensors`. Collective over all holders.
/// @throws ContractError on all holders, naming ranks and tensor, if values differ
void expect_equal_replicas(const ModelPartsList& parts, const std::vector<NamedTensor>& tensors);

/// The bucket group of each gradient, for ReducerOptions::groups. Gradients of replicated parameters share no bucket with others, so sharded
/// gradients have the same layout on all holders. Pure.
/// @param groups the caller's groups, which are subdivided; empty: one group
std::vector<int64_t> groups_of_replicas(const std::vector<TensorSpec>& gradients, const ModelPartsList& parts, const std::vector<int64_t>& groups);

/// For each tensor, whether this rank counts its elements, such as in a norm. If several ranks hold the same part of the model, only the first one
/// counts it. Collective. @param ranks the ranks that hold one model together; null: this rank alone
std::vector<uint8_t> counted_here(const Communicator* ranks, const std::vector<OptimizedTensor>& tensors);

}  // namespace tw
