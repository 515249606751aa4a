// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

/// Returns the mean loss over the rows of its arguments, as a 0-dimensional floating-point tensor.
using Loss = LossFunction;
/// A Loss for models with several outputs or targets.
using LossOfMany = std::function<at::Tensor(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets)>;

/// A model divided into stages, each on one or several ranks, that work on different micro-batches at the same time. Each rank has its stages'
/// parameters, under their names in the whole model; it has several stages if the schedule has several on a device. Parameters of a list of blocks
/// are named as in a torch::nn::Sequential, such as "3.weight".
///
/// ```
/// Pipeline model(comm, blocks, {.schedule = one_forward_one_backward(comm.size(), 8)});
/// torch::optim::SGD sgd(model.parameters(), 0.1);
/// sgd.zero_grad();
/// double loss = model.run(x, y, torch::nn::CrossEntropyLoss());   // forward and backward
/// sgd.step();
/// ```
/// A batch of n rows is divided into micro-batches of n / micro_batches rows; the first ones get the remainder, one row each. Empty micro-batches are
/// skipped. A stage's replicas divide each micro-batch in the same manner. Losses and gradients are weighted by rows, so they equal those of the
/// whole batch. Tensors between stages have the rows in their first dimension; any shape is allowed if both stages have the same number of replicas.
///
/// Random numbers drawn in run() are a function of seed, call number, micro-batch, stage and replica; for operators of a planned module, such as
/// dropout, of seed, call number, operator and row. Those of forward() also depend on the number of forward() calls since the last run(). Pipelines
/// at different places along a mesh axis `data` process different rows: call set_replica() so that they draw different numbers.
///
/// If a stage's pass changes a buffer, or a tied parameter in place, the stage sends it to the other stages that have it, at the end of run() or
/// forward(). A batch norm's running statistics are updated once per micro-batch on each replica. At the end of run(), they are averaged over the
/// replicas, weighted by rows. On CPUs, sparse gradients are summed by rows; parameters that have them must not be tied between stages.
///
/// Parameters may lie on each rank's current accelerator; batches must then lie there, too, on the ranks that use them. A rank without parameters and
/// buffers copies its batches to its current accelerator.
///
/// As a TrainableModel, a Pipeline is divided along the mesh axis `stage`: ranks with the first stage use inputs, ranks with the last one targets,
/// and the others neither.
class Pipeline : public torch::nn::Module, public TrainableModel {
 public:
  /// Divides `blocks` into stages of equal numbers of blocks; with a remainder, the first stages get one block more. Collective. Every rank calls
  /// all factories in order, so that they draw the same random numbers as in one process with this rank's generator. A rank frees the blocks of other
  /// stages at once, so it holds at most its own blocks and one more. Parameters that blocks share, such as those of a module that two factories
  /// return, stay tied across stages: values stay equal, and gradients are summed.
  /// @throws ContractError on every rank for options that are invalid or differ between ranks, for a wrong number of ranks, and for more stages than
  /// blocks
  Pipeline(const Communicator& comm, const std::vector<BlockFactory>& blocks, const PipelineOptions& options);
  /// A pipeline of existing stages. Replicas get the values of the first replica, and tied parameters those of the first rank that has them.
  /// Collective. @param mine this rank's stages; the same on all replicas, except for values
  /// @throws ContractError on every rank as the constructor above does, for a wrong number of stages, and for a
  /// parameter name that is on two devices without being tied
  Pipeline(const Communicator& comm, StageModel mine, const PipelineOptions& options);
  /// A pipeline of a planned module; the plan must have one device per rank. The pipeline shares the module's tensors: each rank trains its part of
  /// `module`, and can free the other parts. Collective. @param plan the same on all ranks, as plan_together() returns it
  /// @throws ContractError on every rank if `module` differs from the planned one on any rank
  Pipeline(const Communicator& comm, const torch::nn::Module& module, const ModelPlan& plan, uint64_t seed = 0);
  ~Pipeline() override;

  /// Runs the schedule on a batch: adds the gradients of the mean loss to those of the parameters. Collective.
  /// @param inputs [n, ...], the whole batch, on each rank of the first stage; elsewhere any tensor. @param targets likewise, on each rank of the
  /// last stage. n is at least 1 and may differ from call to call. @param loss used on the last stage
  /// @return the mean loss of the batch, on every rank. @throws ContractError on every rank alike, without side effects, if numbers of rows do not
  /// match, if ranks make different calls, if a parameter was frozen at construction and now requires a gradient, or if a part of a planned module
  /// has a different mode than the pipeline.
  /// @throws Error if a block throws, naming stage, micro-batch and block; the other ranks throw RevokedError. The pipeline is then unusable: each
  /// later call throws until you call restart_over()
  double run(const at::Tensor& inputs, const at::Tensor& targets, const Loss& loss);
  /// run() for a model with several inputs or outputs. All tensors have the same number of rows.
  double run(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& targets, const LossOfMany& loss);
  /// Returns the output for a batch on every rank, without gradients. Each replica processes its rows as one micro-batch. Collective. @param inputs
  /// as in run()
  at::Tensor forward(const at::Tensor& inputs) override;
  /// forward() for a model with several inputs or outputs.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs);
  /// Like forward(), but only the first rank of the last stage gets the output, for comparison with targets. Other ranks get an undefined tensor, and
  /// hold only their own stages' outputs meanwhile.
  at::Tensor evaluate(const at::Tensor& inputs) override;
  /// evaluate() for a model with several inputs or outputs; other ranks get an empty list.
  std::vector<at::Tensor> evaluate(const std::vector<at::Tensor>& inputs);

  /// Multiplies all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the 2-norm of all gradients of the model together. The gradient of a
  /// tied parameter, or of one that replicas have, counts once. Collective. Call it after run(). @return norm, the same on all ranks.
  /// Ref: torch::nn::utils::clip_grad_norm_.
  double clip_grad_norm(double max_norm);
  /// Makes the next run() draw the random numbers of call `number`, counted from 0. Pass the same number on every rank.
  void set_calls(int64_t number);

  /// Continues over another communicator of the same ranks, after a failure has revoked the pipeline's own. The failed pass does not count as a call
  /// of run(), but gradients and buffers that it changed stay changed. Makes the objects that reduce gradients again. Collective.
  void restart_over(const Communicator& comm);

  const PipelineOptions& options() const noexcept;
  const Schedule& schedule() const noexcept { return options().schedule; }
  /// This rank's stages, ascending: usually one.
  const std::vector<int>& stages() const noexcept;

  /// Parameters, buffers and the number of run() calls, for checkpoints that a pipeline with any number of stages, or one process, can load. A tied
  /// parameter has one name; its other names are aliases.
  std::vector<NamedShard> shards() const override;
  /// The trained parameters for OptimizerState, under the names of shards().
  std::vector<OptimizedTensor> optimized_tensors() const override;
  /// Copies of all parameters and buffers of the model on rank 0, in the order of ranks, under each of their names; empty on other ranks.
  /// Collective.
  std::vector<NamedTensor> whole_on_root() const;

  std::vector<std::string> axes() const override { return {"stage"}; }
  const Communicator* holders() const noexcept override;
  ModelTensors tensors() const override;
  const torch::nn::Module* module() const override { return this; }
  /// Executes run() as call `pass.number`, with gradients multiplied by `pass.weight` and added to `.grad()`. `pass.on_loss` gets a float64 loss and
  /// undefined outputs.
  void pass(const TrainingPass& pass) override;
  bool makes_one_backward_pass() const override { return false; }
  bool needs_samples() const override;
  void set_training(bool training) override;
  /// In your own loop, call set_replica(mesh.coordinate("data")) once. The trainer does this for you.
  void set_replica(int64_t replica) override;
  /// Calls `on_phase` for each forward and backward pass of a micro-batch on this rank; a half of a backward pass is a phase of its own.
  void report_phases(OnPhase on_phase) override;

  void train(bool on = true) override;
  /// Not supported. @throws ContractError: use whole_on_root()
  std::shared_ptr<torch::nn::Module> clone(const std::optional<at::Device>& device = std::nullopt) const override;

 private:
  double run_weighted(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& targets, const LossOfMany& loss, double weight);

  class Impl;
  struct Start;
  explicit Pipeline(Start start);
  static Start start_of(const Communicator& comm, const std::vector<BlockFactory>& blocks, const PipelineOptions& options);
  static Start start_of(const Communicator& comm, StageModel mine, const PipelineOptions& options);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::pipeline
