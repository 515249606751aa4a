// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <tw/autograd/compute_type.hpp>
#include <tw/base/option.hpp>
#include <tw/gradients/compressor.hpp>
#include <tw/planning/plan.hpp>

namespace tw {

/// How the ranks along `data`, which hold equal parts of the model, stay equal.
enum class ReplicaMeeting {
  every_step,  ///< gradients are summed in every update
  apart,       ///< each trains by itself on its samples; LocalSgd or DiLoCo, over ParallelModel::named_parameters(), makes them meet
};

struct ParallelOptions {
  /// Number of parts of a rank's batch that pass through the model one after the other. More save memory of activations, and keep pipelines busy.
  /// Along `shard`, more than one keeps the gradients of a rank's whole stage or module until the last part: they are summed once an update.
  int64_t micro_batches = 1;
  uint64_t seed = 0;  ///< seed of random numbers drawn in training, such as dropout's
  ReplicaMeeting replicas = ReplicaMeeting::every_step;
  /// Dtype of passes, see <tw/autograd/compute_type.hpp>; parameters, gradients, their sums and the optimizer stay in float32.
  ComputeType compute = ComputeType::float32;
  /// Order of the passes along `stage`.
  pipeline::ScheduleKind schedule = pipeline::ScheduleKind::one_forward_one_backward;
  pipeline::Recompute recompute = pipeline::Recompute::none;  ///< of the stages
  std::filesystem::path profile_cache = {};                   ///< file of measured times of operators, for planning stages; empty: none
  int64_t unit_bytes = int64_t{25} << 20;                     ///< along `shard`, see FullyShardedOptions
  int prefetch_units = 0;                                     ///< likewise
  int64_t resident_bytes = 0;                                 ///< likewise
  /// Of gradients along `data`, see ReducerOptions; one that keeps no residuals, such as half_compression(). Not with an axis `shard`, nor with
  /// replicas apart. Null: none.
  std::shared_ptr<Compressor> compressor = nullptr;

  /// @throws ContractError naming the wrong field
  void validate() const;
};
void visit(ParallelOptions& options, OptionVisitor& visitor);

}  // namespace tw
