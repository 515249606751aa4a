// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <tw/comm/mesh.hpp>
#include <tw/data/distributed_sampler.hpp>
#include <tw/gradients/loss.hpp>
#include <tw/gradients/loss_scaler.hpp>
#include <tw/parallel_model/options.hpp>
#include <tw/parallel_model/update_memory.hpp>
#include <tw/state/checkpoint_store.hpp>
#include <tw/state/optimizer_state.hpp>
#include <tw/tensor/named_shard.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace tw {

class Calls;
class Program;

/// Returns a sum over the samples in a part of a batch, such as the sum of their losses or the number of correct answers.
using OutputSum = std::function<double(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets)>;

struct StepOptions {
  double max_norm = 0;  ///< see ParallelModel::clip_grad_norm(); 0: no limit
  /// The scaler whose scale() you passed to Loss::scaled_by(). step() divides gradients by that scale, and then updates the scaler. Null: the loss
  /// was not scaled
  LossScaler* scaler = nullptr;
};

/// A model on all ranks of a mesh; made by parallelize(). Each rank holds some or all elements of the parameters, and trains these with its own
/// optimizer.
///
/// ```
/// Mesh mesh(comm, {{"data", 2}, {"stage", 2}});
/// ParallelModel model = parallelize(mesh, *net, {x});
/// torch::optim::AdamW adam(model.parameters(), 3e-4);
/// for (...) {
///   adam.zero_grad();
///   double loss = model.train_step(inputs, targets, torch::nn::CrossEntropyLoss());
///   model.clip_grad_norm(1.0);
///   adam.step();
/// }
/// ```
/// Axes of the mesh: ranks along `data` and `shard` have different samples; `shard` also divides parameters, gradients and optimizer state. Ranks
/// along `stage` (layers one after the other), `tensor` (parts of operators) and `layer` (layers of an ODE block, computed at the same time by the
/// multigrid method MGRIT) hold the model together, and must pass the same batch. Missing axes have size 1.
///
/// The gradients equal those of one process that trains on all samples, but for rounding, if the model computes each sample by itself and draws no
/// random numbers. Mean losses of ranks and micro-batches are combined as sum(weight * mean) / sum(weight), where `weight` is the number by which the
/// mean divides, see Loss. A batch norm in training mode uses the statistics of the micro-batch. Compression and MGRIT change gradients, see their
/// options. All ranks along `data` and `shard` begin an update with the same buffers. If the update changes a buffer, all these ranks then get
/// one value: the mean over them, weighted by rows, if the buffer is floating-point, such as a running mean; otherwise the maximum. Random numbers
/// that passes draw depend on seed, update, micro-batch and place along `data` and `shard`.
///
/// With ReplicaSync::independent, ranks along `data` do not communicate in an update. The statements above then hold for the other axes, and
/// train_step(), evaluate() and memory() are collective over each replica alone.
///
/// All calls are collective over the mesh unless their comments state otherwise. Use a ParallelModel from one thread.
class ParallelModel {
 public:
  ParallelModel(ParallelModel&&) noexcept;
  ParallelModel& operator=(ParallelModel&&) noexcept;
  ~ParallelModel();

  /// This rank's trained elements, for an element-wise optimizer: SGD, Adam, AdamW, RMSprop or Adagrad. Along `shard` they are one-dimensional parts
  /// of the parameters. Local.
  std::vector<at::Tensor> parameters() const;
  /// The tensors of parameters(), with the names of the model's parameters. Local.
  const std::vector<NamedTensor>& named_parameters() const noexcept;
  /// This rank's buffers, such as running statistics. LocalSgd needs them in addition to named_parameters(). Local.
  std::vector<NamedTensor> named_buffers() const;
  /// The tensors of named_parameters() with their places in the model, for OptimizerState. Local.
  std::vector<OptimizedTensor> optimized() const;

  /// Adds the gradients of the mean loss over all samples of the mesh to those of parameters(). @param inputs [n, ...], the samples of this rank's
  /// place along `data` and `shard`; n may differ between places, and may be 0 on some. Along `stage` only the first stage uses inputs, and only the
  /// last one targets; the other ranks may pass undefined tensors. Inputs must not depend on tensors that require gradients.
  /// @return the mean loss over all samples, on every rank; with ReplicaSync::independent over those of this rank's replica
  /// @throws ContractError on every rank, without side effects, if ranks that hold one model pass different batches, if no place has samples, or if
  /// ranks have the model in different modes or some call evaluate() or memory() instead. Other calls in its place are not detected
  /// @throws RevokedError if the model or the loss throws on another rank, with that rank's message; that rank throws its own exception. You may
  /// catch these errors and make the next step: the failed step has no effect, except that all gradients are dropped. With split layers, or with
  /// ReplicaSync::independent on several ranks along `data`, calls that communicate throw after a failed step: save() the model and make a new one.
  /// There is one exception: a whole module with split layers that was cut along `stage` can go on, unless operators of your own take objects as
  /// arguments.
  /// @throws ContractError in the first step of each mode if an operator draws the same random numbers for different slices along `tensor`: use
  /// tensor_parallel::SplitDropout
  double train_step(const at::Tensor& inputs, const at::Tensor& targets, const Loss& loss);
  double train_step(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& targets, const Loss& loss);
  /// Scales gradients down so that their 2-norm is at most `max_norm`. The norm counts each element of the whole model once. @return the norm before
  /// scaling. Ref: Pascanu et al. 2013.
  double clip_grad_norm(double max_norm);
  /// Divides gradients by the scale of the loss, clips them, and makes the optimizer's step: on all ranks, or on none if any gradient of the model is
  /// not finite. @return whether the step was made; the scaler is updated in both cases. @throws ContractError on every rank if the optimizer trains
  /// tensors that are not the model's; only the first step that divides or clips checks this. @throws ContractError for LBFGS, which does not update
  /// elements independently of each other
  bool step(torch::optim::Optimizer& optimizer, const StepOptions& options = {});
  /// Returns the memory that this rank needs in an update with such a batch. Makes the passes of train_step(), counts their memory, and undoes them:
  /// parameters, buffers, random numbers of updates and the number of updates stay as they are. All gradients are dropped. The passes are made twice
  /// if neither train_step() nor memory() has succeeded before, or since a failed call, because the first passes need more memory than later ones.
  /// Not undone are (1) what the model's hooks did, (2) with layer_parallel::Guess::previous, the initial guess of the next step, and (3) along
  /// `stage` and `layer`, the progress of the random numbers that forward() draws in training mode.
  /// @param optimizer trains parameters(); its state counts even if the optimizer has not made it yet
  /// @throws as train_step() does, also if memory does not suffice; ContractError on every rank for an optimizer other than SGD, Adam, AdamW, RMSprop
  /// and Adagrad
  UpdateMemory memory(const at::Tensor& inputs, const at::Tensor& targets, const Loss& loss, const torch::optim::Optimizer& optimizer);
  UpdateMemory memory(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& targets, const Loss& loss,
                      const torch::optim::Optimizer& optimizer);
  /// Returns the output for this rank's batch, without gradients, in the model's current mode: call eval() first. The ranks that hold the model
  /// together pass the same batch, and all get the output.
  /// Collective over the ranks along `stage`, `tensor`, `layer` and `shard`; each rank along `shard` needs samples.
  at::Tensor forward(const at::Tensor& inputs);
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs);
  /// Evaluates all samples of the mesh, without gradients: calls each of `sums` with the outputs and targets of up to `rows` samples at a time, and
  /// adds up its results. Of the ranks that hold the model together, only one gets outputs and calls `sums`. Call eval() first.
  /// @param inputs, targets as in train_step()
  /// @param rows 0: the size of a micro-batch
  /// @return the sums, on every rank; with ReplicaSync::independent, over this rank's replica
  std::vector<double> evaluate(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& targets, const std::vector<OutputSum>& sums,
                               int64_t rows = 0);
  /// Puts the model into training or evaluation mode. Submodules that you froze by calling their eval() stay in evaluation mode. Local.
  void train(bool on = true);
  void eval() { train(false); }

  /// Number of places along `data` and `shard`; each place has its own samples. Local.
  int places() const noexcept;
  /// This rank's place, from 0. Local.
  int place() const noexcept;
  /// Returns a sampler that deals samples to the places. Local. @param samples size of the data set
  DistributedSampler sampler(size_t samples, const SamplerOptions& options = {}) const;

  /// Parameters, buffers and counters, for checkpoints that any mesh can load; they share the model's memory. Local.
  std::vector<NamedShard> shards() const;
  /// Saves the model and the state of `optimizer`, which trains parameters(). See CheckpointStore::save(). @param store made over all ranks of the
  /// mesh
  void save(CheckpointStore& store, int64_t step, torch::optim::Optimizer& optimizer, const std::string& metadata = "") const;
  /// Loads what save() has saved, on this or any other mesh. @return the metadata. @throws Error on every rank alike, as CheckpointStore::load() does
  std::string load(const CheckpointStore& store, int64_t step, torch::optim::Optimizer& optimizer);
  /// Reads parameters and buffers from safetensors files, such as those of other programs; each rank reads only its parts. Numbers are converted to
  /// the model's dtypes. Other tensors in the files are ignored. The layers of a block of layer_parallel have one tensor for each of their
  /// parameters, a stack along dimension 0, such as "1.weight". If the files do not have a stack, its layers are read one by one, under names such as
  /// "1.3.weight".
  /// @param name_in_files returns the name in the files for the name of a tensor or layer of this model; "": that tensor keeps its values. Empty
  /// function: the names are the same
  /// @throws Error on every rank alike, before anything is changed, naming the tensors that are missing or have a different shape. @throws FileError
  /// if a file can no longer be read while tensors are being filled: some may then have changed
  void load(const std::vector<std::filesystem::path>& files, const std::function<std::string(const std::string& name)>& name_in_files = {});
  /// Parameters and buffers of the whole model on rank 0 of the mesh, on the CPU; empty on other ranks. Rank 0 needs memory for all of them. Each
  /// layer of a block of layer_parallel has its own name, such as "1.3.weight".
  std::vector<NamedTensor> whole_on_root() const;
  /// Describes how the model is divided, such as by the plan of its stages. Local.
  const std::string& explain() const;

 private:
  friend ParallelModel make_parallel_model(const Mesh& of, std::shared_ptr<Calls> calls, std::unique_ptr<Program> program,
                                           const ParallelOptions& options);
  class Impl;
  explicit ParallelModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw
