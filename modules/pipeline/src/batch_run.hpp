// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <tw/autograd/generator.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/pipeline/options.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/planning/stage_ranks.hpp>

#include "row_exchange.hpp"
#include "stage_changes.hpp"
#include "stage_pass.hpp"

namespace tw::pipeline {

/// This rank's place in a pipeline.
struct Place {
  const Communicator& comm;  // all ranks of the pipeline
  const StageRanks& ranks;
  int device = 0;
  int replica = 0;

  const std::vector<int>& stages() const { return ranks.stages_of(device); }
  /// Position of one of these stages.
  size_t index_of(int stage) const { return static_cast<size_t>(std::ranges::find(stages(), stage) - stages().begin()); }
  bool has(int stage) const { return ranks.has(comm.rank(), stage); }
  int last_stage() const { return ranks.stages() - 1; }
  bool has_first() const { return has(0); }
  bool has_last() const { return has(last_stage()); }
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
/// do not block. Ranks without rows of a micro-batch do nothing, and no rank waits for them. Stages on the same rank
/// hand each other copies of outputs, and cotangents.
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
  /// A micro-batch on one stage.
  struct InFlight {
    Message handed;                      // outputs of the previous stage, if that is on this rank
    std::vector<at::Tensor> cotangents;  // cotangents from the next stage, if that is on this rank
    ReceivedActivations received;
    StagePass pass;
    SentActivations sent;
    bool has_halves = false;  // whether its backward pass has two halves
  };

  const std::vector<Action>& actions() const;
  void execute(const Action& action, bool backward_follows);
  void forward(int stage, int m, bool backward_follows);
  void backward(int stage, int m);
  void backward_weights(int stage, int m);
  ReceivedActivations inputs_of(int stage, int m);
  void give_outputs(int stage, int m, std::vector<at::Tensor> outputs);
  std::vector<at::Tensor> cotangents_of(int stage, int m);
  void give_cotangents(int stage, int m, std::vector<at::Tensor> cotangents);
  Rows rows_of(int m) const { return part_of({0, batch_.rows}, options_.schedule.micro_batches, m); }
  Rows mine_of(int m) const { return place_.ranks.share(rows_of(m), place_.comm.rank()); }
  InFlight& in_flight(int stage, int m);
  Recompute recompute_of(int stage) const;
  bool shares_state() const { return place_.stages().size() > 1 && !model_.has_separate_state; }
  std::vector<StagePass::Function> segments_of(int stage, Rows mine);

  const Place& place_;
  const StageModel& model_;
  const PipelineOptions& options_;
  const Batch& batch_;
  uint64_t seed_;
  uint64_t call_;
  const OnPhase& on_phase_;
  GeneratorGuard generator_;
  std::vector<InFlight> passes_;  // by stage of this rank and micro-batch
  StageChanges changes_;
  std::vector<Work> sends_;
  std::vector<at::Tensor> losses_;  // losses of micro-batches, on the last stage
};

}  // namespace tw::pipeline
