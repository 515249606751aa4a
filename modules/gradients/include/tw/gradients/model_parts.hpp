// SPDX-License-Identifier: Apache-2.0
// Models that no rank holds as a whole: which ranks hold the rest, and which parameters several ranks hold.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <tw/gradients/trainable_model.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// Parameters that several ranks hold whole, with the same values.
struct ReplicatedParameters {
  Communicator holders;
  std::vector<std::string> names;  ///< on this rank; in one order on all holders
};

/// The ranks that hold one model in parts, as this rank sees them.
struct ModelParts {
  Communicator ranks;
  std::vector<ReplicatedParameters> replicated = {};  ///< with this rank among the holders
  std::set<std::string> counted_elsewhere = {};       ///< those of which another rank counts the elements, in a norm for example
  bool with_replicas = false;                         ///< `ranks` include those that reduce this rank's gradients
};
/// Along several axes: one after the other.
using ModelPartsList = std::vector<std::shared_ptr<const ModelParts>>;

/// A module of whose parameters several ranks hold a slice each, such as a tensor-parallel layer.
class SlicedModule {
 public:
  virtual ~SlicedModule() = default;
  /// The ranks with the other slices.
  virtual const Communicator& holders() const noexcept = 0;
  /// Names of its own parameters that are slices.
  virtual std::vector<std::string> sliced_parameters() const = 0;

 protected:
  SlicedModule() = default;
  SlicedModule(const SlicedModule&) = default;
  SlicedModule& operator=(const SlicedModule&) = default;
};

/// Those of the sliced modules in `module`: whatever is no slice is replicated on all holders. Then, of a TrainableModel that knows its holders, such
/// as a Pipeline, those of that; collective over them, and otherwise local.
ModelPartsList model_parts(const torch::nn::Module& module);

/// Those of `model`: what OptimizedTensor puts in the same place on several ranks is replicated there. Collective.
/// @param ranks that hold `model` together
std::shared_ptr<const ModelParts> model_parts(const Communicator& ranks, const TrainableModel& model);

/// Compares the replicated tensors among `tensors`. Collective over all holders.
/// @throws ContractError on all holders, naming ranks and tensor, where values differ
void expect_equal_replicas(const ModelPartsList& parts, const std::vector<NamedTensor>& tensors);

/// Bucket groups, by gradient, such that all holders lay out sharded gradients of replicated parameters alike: they share no bucket with others.
/// Pure. @param groups of the caller; empty: all are of one
std::vector<int64_t> groups_of_replicas(const std::vector<TensorSpec>& gradients, const ModelPartsList& parts, const std::vector<int64_t>& groups);

}  // namespace tw
