// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <tw/autograd/compute_type.hpp>
#include <tw/base/option.hpp>
#include <tw/gradients/compressor.hpp>
#include <tw/planning/plan.hpp>
#include <tw/splits/split_options.hpp>

namespace tw {

/// When ranks along the mesh axis `data`, which hold the same parts of the model, synchronize.
enum class ReplicaSync {
  every_step,   ///< gradients are summed in every update
  independent,  ///< each replica trains alone on its samples; synchronize them by LocalSgd or DiLoCo over ParallelModel::named_parameters()
};

struct ParallelOptions {
  /// Number of micro-batches into which each rank's batch is divided; they pass through the model one after the other. A larger number saves memory
  /// of activations, and keeps pipelines busy. With a mesh axis `shard` and more than one micro-batch, each rank keeps the gradients of its whole
  /// stage or module until the last micro-batch, because gradients are summed once per update.
  int64_t micro_batches = 1;
  uint64_t seed = 0;  ///< seed of random numbers in training, such as dropout's, and of initial values that parallelize() makes
  ReplicaSync replicas = ReplicaSync::every_step;
  /// Dtype of passes, see <tw/autograd/compute_type.hpp>; parameters, gradients, their sums and the optimizer stay in float32.
  ComputeType compute = ComputeType::float32;
  /// Order of the passes along `stage`. `interleaved` and `zero_bubble_v` make two stages on each rank; blocks of layer_parallel refuse them. Blocks
  /// of any kind refuse `zero_bubble_h1` and `zero_bubble_v`. Unset: the planner chooses the fastest for a module, whatever memory it needs; for
  /// blocks, which are not planned, it is 1F1B.
  std::optional<pipeline::ScheduleKind> schedule = pipeline::ScheduleKind::one_forward_one_backward;
  pipeline::Recompute recompute = pipeline::Recompute::none;  ///< recomputation in the stages along `stage`
  /// What the division of operators along `tensor` is to achieve, for a whole module without split layers.
  splits::SplitGoal split_goal = splits::SplitGoal::fastest;
  std::filesystem::path profile_cache = {};  ///< directory of measured profiles, see pipeline::MeasureOptions; empty: none
  int64_t unit_bytes = int64_t{25} << 20;    ///< along `shard`, see FullyShardedOptions
  int prefetch_units = 0;                    ///< likewise
  int64_t resident_bytes = 0;                ///< likewise
  bool one_copy_per_node = false;            ///< likewise; all ranks along `shard` must be on one node
  /// Compressor of gradients along `data`, see ReducerOptions. Only compressors without residuals, such as half_compression(), are allowed, because
  /// residuals can be restored neither after a failed step nor on another mesh. None is allowed with a mesh axis `shard` or with
  /// ReplicaSync::independent. Null: no compression.
  std::shared_ptr<Compressor> compressor = nullptr;

  /// @throws ContractError naming the wrong field
  void validate() const;
};
void visit(ParallelOptions& options, OptionVisitor& visitor);

}  // namespace tw
