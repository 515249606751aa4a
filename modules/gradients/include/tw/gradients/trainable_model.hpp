// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_shard.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace torch::nn {
class Module;
}

namespace tw {

/// Returns the mean loss over the samples of a batch; 0-dimensional.
using LossFunction = std::function<at::Tensor(const at::Tensor& outputs, const at::Tensor& targets)>;

/// The tensors of a model on this rank.
struct ModelTensors {
  std::vector<NamedTensor> parameters;              ///< each parameter once; those that require a gradient are trained
  std::vector<NamedTensor> buffers = {};            ///< each buffer once, such as running means; rank 0's values count
  std::map<std::string, std::string> aliases = {};  ///< further names of tied tensors, mapped to the listed name
  std::vector<std::string> sparse = {};             ///< names of parameters whose gradients are sparse
  std::vector<std::string> renormalised = {};       ///< names of trained parameters that forward passes change (embeddings with max_norm)

  /// Parameters and then buffers.
  std::vector<NamedTensor> all_tensors() const;
  /// The device of the first parameter; the CPU if this rank has none.
  c10::Device device() const;
  /// Number of elements of all trained parameters.
  int64_t trained_elements() const;
  /// The tensors of `parameters` alone, for an optimizer.
  std::vector<at::Tensor> tensors() const;
  /// @throws ContractError naming one of `renormalised`, if there is any: each replica would change different rows, so replicas would drift apart
  void expect_replicable() const;
};

/// The tensors of `module`.
ModelTensors model_tensors(const torch::nn::Module& module);

/// Arguments of a training pass, and the callback that it calls. All are borrowed.
struct TrainingPass {
  const at::Tensor& inputs;   ///< [n, ...], n > 0
  const at::Tensor& targets;  ///< [n] or [n, ...]
  const LossFunction& loss;
  double weight = 1;   ///< factor of the mean loss's gradient
  int64_t number = 0;  ///< number of the pass in its run; random layers' draws may depend on it
  int64_t epoch = 1;   ///< from 1
  /// Called once, after the loss is known and before gradients are reduced; `outputs` is undefined if this rank has none. It may replace `loss`,
  /// which has an effect if TrainableModel::makes_one_backward_pass(). May be empty.
  std::function<void(const at::Tensor& outputs, at::Tensor& loss)> on_loss = {};
};

/// Callback with the begin and end time of a phase of a pass on this rank, for timelines. @param name a string literal
using OnPhase = std::function<void(const char* name, std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end)>;

/// Interface between a trainer and a model, whether each rank has the whole model or several ranks hold it in parts. Reducing gradients along a
/// `data` axis is not the model's task.
///
/// The ranks that hold one model together use the same samples, and call forward() and pass() together, with the same number of rows.
class TrainableModel {
 public:
  virtual ~TrainableModel() = default;

  /// The mesh axes along which ranks hold the model together. Empty: each rank has the whole model.
  virtual std::vector<std::string> axes() const { return {}; }
  /// The ranks along those axes, if the model knows them and several of them may have the same parameter; otherwise null. See model_parts().
  virtual const Communicator* holders() const { return nullptr; }
  /// This rank's tensors; the same ones at each call.
  virtual ModelTensors tensors() const = 0;
  /// The module that this rank's layers are in; null: unknown. Borrowed.
  virtual const torch::nn::Module* module() const { return nullptr; }
  /// Parameters, buffers and all other state for a checkpoint; shares memory. Default: tensors(), whole on each rank.
  virtual std::vector<NamedShard> shards() const;
  /// The place of the trained parameters in the whole model, for OptimizerState. Default: each is whole.
  virtual std::vector<OptimizedTensor> optimized_tensors() const;
  /// Those of optimized_tensors() that require a gradient.
  std::vector<OptimizedTensor> trained_tensors() const;
  /// Parameters and buffers of the whole model on rank 0 of `holders`, as in one process; empty elsewhere. Collective over `holders`. Default:
  /// assembled from shards(). @param holders the ranks that hold one model together
  virtual std::vector<NamedTensor> whole_on_root(const Communicator& holders) const;

  /// Returns the output on each rank, for evaluation; recorded by autograd if makes_one_backward_pass(). Collective over the model's ranks.
  /// @param inputs [n, ...], n > 0
  virtual at::Tensor forward(const at::Tensor& inputs) = 0;
  /// Returns the output of forward() on the ranks that compute losses and metrics; undefined elsewhere. At least one of the model's ranks that
  /// needs_samples() gets it, the same ones in each call. Collective over the model's ranks. Default: forward(), on each rank.
  virtual at::Tensor evaluate(const at::Tensor& inputs) { return forward(inputs); }
  /// Runs a forward and a backward pass; adds to `.grad()` of this rank's parameters. Collective over the model's ranks. Default: forward() and
  /// autograd's backward pass, the latter with autocast off (AutocastState::off()).
  virtual void pass(const TrainingPass& pass);
  /// Whether pass() is one backward pass of autograd, so that a reducer can use each gradient as soon as it is ready. Otherwise gradients are
  /// complete when pass() returns.
  virtual bool makes_one_backward_pass() const { return true; }
  /// Whether this rank reads inputs or targets. Other ranks get the same number of rows, without content.
  virtual bool needs_samples() const { return true; }
  virtual void set_training(bool /*training*/) {}  ///< true restores the submodules' modes from before false; see TrainingSwitch
  /// Sets the model's index along a `data` axis, from 0, so that each replica draws different random numbers. Called with the same value on all of
  /// the model's ranks. Default: nothing; the trainer seeds LibTorch's generators by rank along that axis.
  virtual void set_replica(int64_t /*replica*/) {}
  /// Reports the phases of all later passes to `on_phase`; an empty function stops this.
  virtual void tell_phases(OnPhase /*on_phase*/) {}  // NOLINT(performance-unnecessary-value-param): overrides store it

 protected:
  TrainableModel() = default;
  TrainableModel(const TrainableModel&) = default;
  TrainableModel& operator=(const TrainableModel&) = default;
};

/// A model that each rank has whole. @param forward calls `module`
std::shared_ptr<TrainableModel> whole_model(std::shared_ptr<torch::nn::Module> module, std::function<at::Tensor(const at::Tensor&)> forward);

/// A model that forwards calls to another model, unless overridden. evaluate() calls this object's forward(), unless it is overridden too.
class ModelOverModel : public TrainableModel {
 public:
  explicit ModelOverModel(std::shared_ptr<TrainableModel> inner) : inner_(std::move(inner)) {}

  std::vector<std::string> axes() const override { return inner_->axes(); }
  const Communicator* holders() const override { return inner_->holders(); }
  ModelTensors tensors() const override { return inner_->tensors(); }
  const torch::nn::Module* module() const override { return inner_->module(); }
  std::vector<NamedShard> shards() const override { return inner_->shards(); }
  std::vector<OptimizedTensor> optimized_tensors() const override { return inner_->optimized_tensors(); }
  std::vector<NamedTensor> whole_on_root(const Communicator& holders) const override { return inner_->whole_on_root(holders); }
  at::Tensor forward(const at::Tensor& inputs) override { return inner_->forward(inputs); }
  void pass(const TrainingPass& pass) override { inner_->pass(pass); }
  bool makes_one_backward_pass() const override { return inner_->makes_one_backward_pass(); }
  bool needs_samples() const override { return inner_->needs_samples(); }
  void set_training(bool training) override { inner_->set_training(training); }
  void set_replica(int64_t replica) override { inner_->set_replica(replica); }
  void tell_phases(OnPhase on_phase) override { inner_->tell_phases(std::move(on_phase)); }

 protected:
  const std::shared_ptr<TrainableModel>& inner() const noexcept { return inner_; }

 private:
  std::shared_ptr<TrainableModel> inner_;
};

}  // namespace tw
