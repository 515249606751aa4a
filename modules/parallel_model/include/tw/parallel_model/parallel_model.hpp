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

/// A sum over the samples of a part of a batch, such as of their losses or of right answers.
using OutputSum = std::function<double(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets)>;

struct StepOptions {
  double max_norm = 0;           ///< as of ParallelModel::clip_grad_norm(); 0: no limit
  LossScaler* scaler = nullptr;  ///< by whose scale() the loss was scaled, see Loss::scaled_by(); updated. Null: none
};

/// A model on all ranks of a mesh; made by parallelize(). Each rank has a part of its elements, and trains them with its own optimizer.
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
/// Axes of the mesh: along `data` and `shard` ranks have different samples; `shard` also divides parameters, gradients and optimizer state. Along
/// `stage` (layers one after the other), `tensor` (split layers) and `layer` (layers by multigrid in time) ranks hold the model together, and pass
/// the same batch. Missing axes have size 1.
///
/// The result equals that of one process over all samples. Losses are weighted by what their means are divided by, see Loss. Every rank of `data` and
/// `shard` begins an update with the same buffers; afterwards a buffer of floating-point numbers, such as a running mean, is the mean over these
/// ranks, weighted by rows, and any other buffer is the maximum. If passes draw random numbers, these depend on seed, update, micro-batch and place
/// along `data` and `shard`.
///
/// With ReplicaMeeting::apart, ranks along `data` do not meet in an update. The statements above then hold for the other axes.
///
/// All calls are collective over the mesh unless their comments state otherwise. Use it from one thread.
class ParallelModel {
 public:
  ParallelModel(ParallelModel&&) noexcept;
  ParallelModel& operator=(ParallelModel&&) noexcept;
  ~ParallelModel();

  /// This rank's trained elements, for an element-wise optimizer: SGD, Adam, AdamW, RMSprop or Adagrad. Along `shard` they are one-dimensional parts
  /// of the parameters. Local.
  std::vector<at::Tensor> parameters() const;
  /// The same with the names of their parameters. Local.
  const std::vector<NamedTensor>& named_parameters() const noexcept;
  /// This rank's buffers, such as running statistics; for LocalSgd, with named_parameters(). Local.
  std::vector<NamedTensor> named_buffers() const;
  /// The same as named_parameters(), with their place in the model, for OptimizerState. Local.
  std::vector<OptimizedTensor> optimized() const;

  /// Adds the gradients of the mean loss over all samples of the mesh to those of parameters(). @param inputs [n, ...], the samples of this rank's
  /// place along `data` and `shard`; n may differ between places, and may be 0 on some. Along `stage` only the first stage uses inputs, and only the
  /// last one targets; others may pass undefined tensors. Inputs must not depend on tensors that require gradients.
  /// @return the mean loss over all samples, on every rank; with ReplicaMeeting::apart over those of this rank's replica
  /// @throws ContractError on every rank, without side effects, if ranks that hold one model pass different batches, or no place has samples, or
  /// ranks have the model in different modes, or make other calls. If the
  /// model or the loss throws on one rank, the others throw RevokedError with its message. You may catch these, and make the next step: it follows as
  /// if this one had not been, except that all gradients are dropped. With split layers, or with ReplicaMeeting::apart, no other call can follow.
  /// In the first step also if an operator draws the same random numbers for different slices along `tensor`: use tensor_parallel::SplitDropout
  double train_step(const at::Tensor& inputs, const at::Tensor& targets, const Loss& loss);
  double train_step(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& targets, const Loss& loss);
  /// Scales gradients down so that their 2-norm is at most `max_norm`; it counts each element of the model once, over the whole mesh. @return the
  /// norm before scaling. Ref: Pascanu et al. 2013.
  double clip_grad_norm(double max_norm);
  /// Makes the optimizer's step on all ranks, or on none if an element of the gradients is not finite anywhere on the mesh: divides gradients by the
  /// scale of the loss, and clips them. @return whether the step was made. @throws ContractError on every rank in the first step that divides or
  /// clips, if the optimizer has other tensors
  bool step(torch::optim::Optimizer& optimizer, const StepOptions& options = {});
  /// The output for this rank's batch, without gradients; along the axes that hold the model together, on every rank. Collective over these, and
  /// along `shard`, where each rank needs samples.
  at::Tensor forward(const at::Tensor& inputs);
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs);
  /// Sums over all samples of the mesh: of each of `sums` over the outputs and targets of `rows` samples at a time, without gradients. Only ranks
  /// that compute sums get outputs. Call eval() before. @param inputs, targets as those of train_step(). @param rows 0: as in a micro-batch
  /// @return the sums, on every rank; with ReplicaMeeting::apart, over this rank's replica
  std::vector<double> evaluate(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& targets, const std::vector<OutputSum>& sums,
                               int64_t rows = 0);
  /// Puts the model into training or evaluation mode. Submodules that were frozen by eval() before stay frozen. Local.
  void train(bool on = true);
  void eval() { train(false); }

  /// Number of places along `data` and `shard`, which have different samples. Local.
  int places() const noexcept;
  /// This rank's place, from 0. Local.
  int place() const noexcept;
  /// Deals samples over the places. Local. @param samples size of the data set
  DistributedSampler sampler(size_t samples, const SamplerOptions& options = {}) const;

  /// Parameters, buffers and counters, for checkpoints that any mesh can load; shares memory. Local.
  std::vector<NamedShard> shards() const;
  /// Saves the model and the state of `optimizer`, which has parameters(). See CheckpointStore::save()
  void save(CheckpointStore& store, int64_t step, torch::optim::Optimizer& optimizer, const std::string& metadata = "") const;
  /// Loads what any mesh has saved. @return the metadata. @throws Error on every rank alike, as CheckpointStore::load()
  std::string load(const CheckpointStore& store, int64_t step, torch::optim::Optimizer& optimizer);
  /// Reads parameters and buffers from safetensors files, such as those of other programs; each rank reads its parts only. Numbers are converted to
  /// the model's dtypes. Other tensors in the files are ignored. If the files have no stack of layers, such as "1.weight", each layer is read by its
  /// own name, such as "1.3.weight".
  /// @param name_in_files returns what the files call a tensor or layer of this model; "" leaves it as it is. Empty function: the same names
  /// @throws Error on every rank alike, before anything is changed, naming what is missing or has another shape
  void load(const std::vector<std::filesystem::path>& files, const std::function<std::string(const std::string& name)>& name_in_files = {});
  /// Parameters and buffers of the whole model on rank 0 of the mesh; nothing elsewhere. Rank 0 needs memory for all of them. Layers in parallel have
  /// names of their own, such as "1.3.weight".
  std::vector<NamedTensor> whole_on_root() const;
  /// How the model is divided, such as the plan of its stages. Local.
  const std::string& explain() const;

 private:
  friend ParallelModel make_parallel_model(const Mesh& of, std::shared_ptr<Calls> calls, std::unique_ptr<Program> program,
                                           const ParallelOptions& options);
  class Impl;
  explicit ParallelModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw
