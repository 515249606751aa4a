// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/autograd/generator.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/pipeline/options.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/planning/stage_ranks.hpp>

#include "row_exchange.hpp"
#include "stage_pass.hpp"

namespace tw::pipeline {

/// This rank's place in a pipeline.
struct Place {
  const Communicator& comm;  // all ranks of the pipeline
  const StageRanks& ranks;
  int stage = 0;
  int replica = 0;

  bool is_first() const { return stage == 0; }
  bool is_last() const { return stage == ranks.stages() - 1; }
};

/// The arguments of run().
struct Batch {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> targets;
  const LossOfMany& loss;
  int64_t rows = 0;
  double weight = 1;  // factor of the gradient
};

/// Executes a rank's actions on one batch.
///
/// A forward pass receives this rank's rows from the ranks of the previous stage, computes, and sends the outputs to the ranks of the next stage.
/// Each message marks the outputs that want a cotangent back. A backward pass goes in the opposite direction, when the shapes are known. Sends
/// do not block. Ranks without rows of a micro-batch do nothing, and no rank waits for them.
class BatchRun {
 public:
  /// Keeps references to all arguments. @param seed, call for the random numbers. @param on_phase may be empty
  BatchRun(const Place& place, const StageModel& model, const PipelineOptions& options, const Batch& batch, uint64_t seed, uint64_t call,
           const OnPhase& on_phase);

  /// Executes all actions. @return this rank's share of the loss. @throws Error naming stage, micro-batch and pass for anything that a block throws
  double execute();
  /// Number of rows of the batch in this rank's share.
  int64_t rows() const;
  /// Waits for the sends of execute().
  void finish() { wait_all(sends_); }

 private:
  struct InFlight {
    ReceivedActivations received;
    StagePass pass;
    SentActivations sent;
  };

  const std::vector<Action>& actions() const;
  void execute(const Action& action, bool backward_follows);
  void forward(int m, bool backward_follows);
  void backward(int m);
  void backward_weights(int m);
  Rows rows_of(int m) const { return part_of({0, batch_.rows}, options_.schedule.micro_batches, m); }
  Recompute recompute() const;
  std::vector<StagePass::Function> segments_of(Rows mine);

  const Place& place_;
  const StageModel& model_;
  const PipelineOptions& options_;
  const Batch& batch_;
  uint64_t seed_;
  uint64_t call_;
  const OnPhase& on_phase_;
  GeneratorGuard generator_;
  std::vector<InFlight> passes_;     // by micro-batch
  std::vector<uint8_t> has_halves_;  // by micro-batch, whether its backward pass has two halves
  std::vector<Work> sends_;
  std::vector<at::Tensor> losses_;  // losses of micro-batches, on the last stage
};

}  // namespace tw::pipeline
