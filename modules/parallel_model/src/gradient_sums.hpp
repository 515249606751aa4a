// SPDX-License-Identifier: Apache-2.0
// Where a rank keeps its parameters, and how gradients are summed over the ranks with other samples.
#pragma once
#include <memory>
#include <tw/comm/mesh.hpp>
#include <tw/gradients/trainable_model.hpp>
#include <tw/parallel_model/options.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw {

class Program;

class GradientSums {
 public:
  virtual ~GradientSums() = default;

  /// While the result exists, backward passes add to this rank's gradients only; the next pass without it, or join(), sums them over the ranks.
  virtual std::shared_ptr<void> hold() { return nullptr; }
  /// Sums gradients without a pass of this rank. Collective with the other ranks' passes.
  virtual void join() {}
  /// Call after parameters() were written: what was gathered is out of date. Local.
  virtual void parameters_written() {}
  /// Goes on over other communicators of the same ranks, after those before were revoked. Collective over the mesh.
  virtual void restart(const Mesh& mesh, const Communicator* model_ranks) = 0;
  /// Whether passes gather parameters, so that all ranks must make equally many.
  virtual bool gathers_in_passes() const { return false; }

  /// What the optimizer updates, in the order of the program's trained parameters, and its place in the model.
  virtual std::vector<OptimizedTensor> optimized() const = 0;
  /// This rank's parameters, for checkpoints.
  virtual std::vector<NamedShard> parameters() const = 0;

 protected:
  GradientSums() = default;
  GradientSums(const GradientSums&) = default;
  GradientSums& operator=(const GradientSums&) = default;
};

/// Every rank keeps the parameters of its program. Collective over the mesh. @param model_ranks those that hold the model together; null: one rank
std::unique_ptr<GradientSums> whole_parameters(const Mesh& mesh, const Communicator* model_ranks, TrainableModel& model,
                                               const ParallelOptions& options);
/// Every rank keeps its part along `shard` of the parameters of its program. Collective over the mesh.
std::unique_ptr<GradientSums> sharded_parameters(const Mesh& mesh, Program& program, const ParallelOptions& options);

}  // namespace tw
