// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <tw/gradients/reducer.hpp>
#include <tw/gradients/trainable_model.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/pipeline/options.hpp>
#include <tw/pipeline/stage_model.hpp>
#include <tw/tensor/named_shard.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <utility>
#include <vector>

namespace tw::pipeline {

class ModelPlan;

/// The mean of a loss over the rows of its arguments, float of no dimension.
using Loss = LossFunction;
/// The same for models of several outputs.
using LossOfMany = std::function<at::Tensor(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets)>;

/// A model in stages, each on one rank or several, which work on different micro-batches at the same time. Each rank has the parameters of its own
/// stage, under the names that they have in the whole model: of blocks, those of a torch::nn::Sequential of all, such as "3.weight".
///
/// ```
/// Pipeline model(comm, blocks, {.schedule = one_forward_one_backward(comm.size(), 8)});
/// torch::optim::SGD sgd(model.parameters(), 0.1);
/// sgd.zero_grad();
/// double loss = model.run(x, y, torch::nn::CrossEntropyLoss());   // forward and backward
/// sgd.step();
/// ```
/// A batch of n rows is cut into micro-batches of n / micro_batches rows, the first ones one more; of fewer rows than micro-batches, the last ones
/// are empty and left out. A micro-batch is cut likewise among the replicas of a stage. Losses and gradients count by their rows, so that they
/// are those of the whole batch, whatever the cuts. What stages pass on has the rows in its first dimension, or any shape where both stages have
/// equally many replicas.
///
/// Random numbers drawn in run() are a function of the seed, the number of the call, micro-batch, stage and replica; dropout of a planned module, of
/// seed, call, operator and row. Those of forward() are a function of the same and of the number of forward() calls since the last run(). Pipelines
/// along a data axis, which have other rows, draw other numbers after set_replica().
///
/// A stage whose pass changes a buffer, or a tied parameter by hand, sends it to the other stages that have it, after run() and after forward(). A
/// batch norm's running statistics are updated once per micro-batch on each replica; when gradients are reduced, replicas take their mean, by the
/// rows of each. Sparse gradients are not reduced: a stage that has them has one replica and does not tie them.
///
/// Parameters may lie on an accelerator, each rank's on its current one, and so do batches on the ranks that look at them; a rank without parameters
/// and buffers copies its batches there.
///
/// As a TrainableModel it lies along the axis `stage`: the first stage looks at inputs, the last one at targets, and those between at neither.
class Pipeline : public torch::nn::Module, public TrainableModel {
 public:
  /// Stages get equal numbers of blocks, the first ones one more where they do not divide. Collective. Every rank calls all factories in their order,
  /// so that the random numbers are those of one process with this rank's generator, and frees at once what is not its own: at most its own blocks
  /// and one exist. Parameters that blocks share, such as those of a module that two factories return, stay tied where the blocks are on different
  /// stages: values stay equal, and gradients are summed.
  /// @throws ContractError on every rank for options that differ or are not valid, another number of ranks, and more stages than blocks
  Pipeline(const Communicator& comm, const std::vector<BlockFactory>& blocks, const PipelineOptions& options);
  /// The same of a stage that exists. Replicas get the values of the first of them, tied parameters those of the
  /// first stage that has them. Collective. @param mine equal on replicas but for values
  /// @throws ContractError on every rank as above, and for one name on two stages that is not marked as tied
  Pipeline(const Communicator& comm, StageModel mine, const PipelineOptions& options);
  /// This rank's stage of a module that was planned for as many devices, whose tensors it shares: `module` is trained, on each rank in part, and its
  /// other parts can be freed. Collective. @param plan the same on all ranks, as by plan_together()
  /// @throws ContractError on every rank when `module` is not what was planned on one
  Pipeline(const Communicator& comm, const torch::nn::Module& module, const ModelPlan& plan, uint64_t seed = 0);
  ~Pipeline() override;

  /// Runs the schedule on a batch: adds the gradients of the mean loss to those of the parameters. Collective.
  /// @param inputs [n, ...], the whole batch, on each rank of the first stage; elsewhere anything. @param targets the same on each of the last stage.
  /// n is at least 1 and may differ from call to call. @param loss used on the last stage
  /// @return the mean loss of the batch, on every rank. @throws ContractError on every rank alike, and nothing has happened, where numbers of rows do
  /// not fit, a parameter requires a gradient that was frozen when the pipeline was made, or a part of a planned module has another mode than the
  /// pipeline; Error naming stage, micro-batch and block for what a block throws, and RevokedError on the other ranks: the pipeline is then unusable,
  /// and each later call throws
  double run(const at::Tensor& inputs, const at::Tensor& targets, const Loss& loss);
  /// The same for a model of several inputs or outputs. All tensors have the same number of rows.
  double run(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& targets, const LossOfMany& loss);
  /// The output for a batch on every rank, without gradients, in one piece for each replica. Collective. @param inputs used on the first stage
  at::Tensor forward(const at::Tensor& inputs) override;
  /// The same for a model of several inputs or outputs.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs);
  /// The same where it is compared with targets: on the first rank of the last stage. Other ranks get an undefined tensor, and hold no outputs but
  /// those of their own stage.
  at::Tensor evaluate(const at::Tensor& inputs) override;

  /// While the result lives, run() leaves gradients where they are: they accumulate on each rank, and the next run() without it reduces their sum. On
  /// every rank alike. May outlive the pipeline.
  [[nodiscard]] std::shared_ptr<void> no_sync();
  /// Multiplies all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the 2-norm of all of them together, each counted once. Collective;
  /// after a run() without no_sync(). Not for sharded gradients. @return norm, the same on all ranks. Ref: torch::nn::utils::clip_grad_norm_.
  double clip_grad_norm(double max_norm);
  /// The next run() draws the random numbers of call `number`, from 0. On every rank alike.
  void set_calls(int64_t number);

  const PipelineOptions& options() const noexcept;
  const Schedule& schedule() const noexcept { return options().schedule; }
  int stage() const noexcept;
  /// The ranks of this stage.
  const Communicator& replicas_comm() const noexcept;
  /// What reduces the gradients of reduced_parameters(), in their order: for a ShardedOptimizer. Collective over the stage at its first use.
  Reducer& reducer();
  const std::vector<NamedTensor>& reduced_parameters() const noexcept;
  /// The model's blocks that this rank has: begin, end. Empty without blocks.
  std::pair<int64_t, int64_t> blocks() const noexcept;

  /// Parameters, buffers and the number of calls for checkpoints, which a pipeline of any other stages can load, or one process. Tied parameters have
  /// one name, and the others as aliases.
  std::vector<NamedShard> shards() const override;
  /// The trained parameters for OptimizerState, under the same names.
  std::vector<OptimizedTensor> optimized_tensors() const override;
  /// Copies of all parameters and buffers of the model on rank 0, by stage, under each of their names; nothing elsewhere. Collective.
  std::vector<NamedTensor> whole_on_root() const;

  std::vector<std::string> axes() const override { return {"stage"}; }
  const Communicator* holders() const noexcept override;
  ModelTensors tensors() const override;
  std::vector<NamedTensor> whole_on_root(const Communicator& /*holders*/) const override { return whole_on_root(); }
  /// run() as call `pass.number`, with the weight in its backward passes: gradients gather where `.grad()` is. The loss is float64, outputs are
  /// undefined. Not for sharded gradients, nor under no_sync().
  void pass(const TrainingPass& pass) override;
  bool makes_one_backward_pass() const override { return false; }
  bool needs_samples() const override;
  void set_training(bool training) override;
  /// In a loop of your own, once: set_replica(mesh.coordinate("data")). The trainer does it by itself.
  void set_replica(int64_t replica) override;
  /// Of the passes of micro-batches.
  void tell_phases(OnPhase on_phase) override;

  void train(bool on = true) override;
  /// @throws ContractError: see whole_on_root()
  std::shared_ptr<torch::nn::Module> clone(const std::optional<at::Device>& device = std::nullopt) const override;

 private:
  bool is_paused() const;  // by no_sync()
  double run_weighted(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& targets, const LossOfMany& loss, double weight);

  class Impl;
  struct Start;
  explicit Pipeline(Start start);
  static Start start_of(const Communicator& comm, const std::vector<BlockFactory>& blocks, const PipelineOptions& options);
  static Start start_of(const Communicator& comm, StageModel mine, const PipelineOptions& options);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::pipeline
