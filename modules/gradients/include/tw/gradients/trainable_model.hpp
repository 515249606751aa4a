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
  std::vector<NamedTensor> buffers = {};            ///< each buffer once, such as running means
  std::map<std::string, std::string> aliases = {};  ///< further names of tied tensors, mapped to the listed name
  std::vector<std::string> sparse = {};             ///< names of parameters whose gradients are sparse
  std::vector<std::string> renormalised = {};       ///< names of trained parameters that forward passes change in place (embeddings with max_norm)

  /// Parameters and then buffers.
  std::vector<NamedTensor> all_tensors() const;
  /// The device of the first parameter; the CPU if this rank has none.
  c10::Device device() const;
  /// Number of elements of all trained parameters.
  int64_t trained_elements() const;
  /// The tensors of `parameters` without their names, for an optimizer.
  std::vector<at::Tensor> tensors() const;
  /// @throws ContractError naming a parameter unless `renormalised` is empty: each replica would change different rows, so the replicas would drift
  /// apart
  void expect_replicable() const;
};

/// The tensors of `module`; they share its memory.
ModelTensors model_tensors(const torch::nn::Module& module);

/// Callback with a layer and its name in a module.
using OnLayer = std::function<void(const std::string& name, const torch::nn::Module& layer)>;
/// Calls `on_layer` for `module` itself, whose name is "", and for all its submodules.
void for_each_layer(const torch::nn::Module& module, const OnLayer& on_layer);

/// Arguments of a training pass. `inputs`, `targets` and `loss` must outlive it.
struct TrainingPass {
  const at::Tensor& inputs;   ///< [n, ...], n > 0
  const at::Tensor& targets;  ///< [n] or [n, ...]
  const LossFunction& loss;
  double weight = 1;   ///< factor of the loss in the backward pass, such as loss scale * samples of the pass / samples of the update
  int64_t number = 0;  ///< index of the pass in the run, from 0; random layers may derive their random numbers from it
  int64_t epoch = 1;   ///< index of the epoch, from 1
  /// Called once, after the loss is known and before gradients are reduced; `outputs` is undefined if this rank has none. It may replace `loss` only
  /// if TrainableModel::makes_one_backward_pass(); otherwise a replacement has no effect (in the Trainer, it throws). May be empty.
  std::function<void(const at::Tensor& outputs, at::Tensor& loss)> on_loss = {};
};

/// Callback with the begin and end time of a phase of a pass on this rank, for timelines. @param name a string literal
using OnPhase = std::function<void(const char* name, std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end)>;

/// Interface between a trainer and a model, whether each rank has the whole model or several ranks hold it in parts. The model does not reduce
/// gradients along the mesh axis `data`.
///
/// The ranks that hold one model together use the same samples, and call forward() and pass() together, with the same number of input rows.
class TrainableModel {
 public:
  virtual ~TrainableModel() = default;

  /// The mesh axes along which ranks hold the model together. Empty: each rank has the whole model.
  virtual std::vector<std::string> axes() const { return {}; }
  /// Communicator of the ranks along axes(), if several of them may have the same parameter. Null: no two ranks have the same parameter, or the model
  /// does not know. See model_parts().
  virtual const Communicator* holders() const { return nullptr; }
  /// The communicators on which passes wait for other ranks. A Trainer revokes them if its run ends with an exception, so that the waits of the other
  /// ranks end, too. Default: holders(), if it is not null, and SlicedModule::holders() of all layers that are SlicedModules.
  virtual std::vector<const Communicator*> communicators() const;
  /// This rank's tensors; the same ones at each call.
  virtual ModelTensors tensors() const = 0;
  /// The module that contains this rank's layers; the model owns it. Null: there is none.
  virtual const torch::nn::Module* module() const { return nullptr; }
  /// Calls `on_layer` for each layer on this rank. Default: the layers of module(), if it is not null. Override it if there are others.
  virtual void for_each_layer(const OnLayer& on_layer) const;
  /// Parameters, buffers and all other state for a checkpoint; shares memory. Default: tensors(), whole on each rank.
  virtual std::vector<NamedShard> shards() const;
  /// All parameters of this rank, frozen ones too, with their place in the whole model, for OptimizerState. Default: each is whole.
  virtual std::vector<OptimizedTensor> optimized_tensors() const;
  /// The elements of optimized_tensors() that require a gradient.
  std::vector<OptimizedTensor> trained_tensors() const;
  /// The parameters and buffers that other programs need in order to evaluate the model; shares memory. full_tensors_on_root() assembles them.
  /// Default: those of shards(). Override it if shards() has tensors from which the model's own are computed, such as control points of splines.
  virtual std::vector<NamedShard> exported_shards() const;

  /// Returns the output on each rank, for evaluation; recorded by autograd if makes_one_backward_pass(). Collective over the model's ranks.
  /// @param inputs [n, ...], n > 0
  virtual at::Tensor forward(const at::Tensor& inputs) = 0;
  /// Returns the output of forward() on the ranks that compute losses and metrics; undefined elsewhere. These are the same ranks in each call; on at
  /// least one of them, needs_samples() is true. Collective over the model's ranks. Default: forward(), on each rank.
  virtual at::Tensor evaluate(const at::Tensor& inputs) { return forward(inputs); }
  /// Runs a forward and a backward pass; adds to `.grad()` of this rank's parameters. Collective over the model's ranks. Default: forward() and
  /// autograd's backward pass, the latter with autocast off (AutocastState::off()).
  virtual void pass(const TrainingPass& pass);
  /// Whether pass() calls autograd's backward pass exactly once, so that a reducer can use each gradient as soon as it is ready. If false, gradients
  /// are complete only when pass() returns.
  virtual bool makes_one_backward_pass() const { return true; }
  /// Whether this rank reads inputs or targets. Other ranks get tensors with the same number of rows and meaningless values.
  virtual bool needs_samples() const { return true; }
  /// Sets the mode. false: evaluation mode. true: every submodule gets back the mode that it had before set_training(false); see TrainingSwitch.
  /// Default: does nothing.
  virtual void set_training(bool /*training*/) {}
  /// Sets the model's index along the mesh axis `data`, from 0, so that each replica draws different random numbers. Called with the same value on
  /// all of the model's ranks. Default: does nothing; the trainer seeds LibTorch's generators by rank along that axis.
  virtual void set_replica(int64_t /*replica*/) {}
  /// Calls `on_phase` for each phase of all later passes; an empty function ends this. Default: does nothing.
  virtual void report_phases(OnPhase /*on_phase*/) {}  // NOLINT(performance-unnecessary-value-param): overrides store it

 protected:
  TrainableModel() = default;
  TrainableModel(const TrainableModel&) = default;
  TrainableModel& operator=(const TrainableModel&) = default;
};

/// A TrainableModel of which each rank has the whole `module`. @param forward returns the output of `module`
std::shared_ptr<TrainableModel> whole_model(std::shared_ptr<torch::nn::Module> module, std::function<at::Tensor(const at::Tensor&)> forward);

/// A model that forwards each call to another model, `inner`. Derived classes override some of the functions. Only evaluate() is not forwarded: it
/// calls forward() of this object.
class ModelDecorator : public TrainableModel {
 public:
  explicit ModelDecorator(std::shared_ptr<TrainableModel> inner) : inner_(std::move(inner)) {}

  std::vector<std::string> axes() const override { return inner_->axes(); }
  const Communicator* holders() const override { return inner_->holders(); }
  std::vector<const Communicator*> communicators() const override { return inner_->communicators(); }
  ModelTensors tensors() const override { return inner_->tensors(); }
  const torch::nn::Module* module() const override { return inner_->module(); }
  void for_each_layer(const OnLayer& on_layer) const override { inner_->for_each_layer(on_layer); }
  std::vector<NamedShard> shards() const override { return inner_->shards(); }
  std::vector<OptimizedTensor> optimized_tensors() const override { return inner_->optimized_tensors(); }
  std::vector<NamedShard> exported_shards() const override { return inner_->exported_shards(); }
  at::Tensor forward(const at::Tensor& inputs) override { return inner_->forward(inputs); }
  void pass(const TrainingPass& pass) override { inner_->pass(pass); }
  bool makes_one_backward_pass() const override { return inner_->makes_one_backward_pass(); }
  bool needs_samples() const override { return inner_->needs_samples(); }
  void set_training(bool training) override { inner_->set_training(training); }
  void set_replica(int64_t replica) override { inner_->set_replica(replica); }
  void report_phases(OnPhase on_phase) override { inner_->report_phases(std::move(on_phase)); }

 protected:
  const std::shared_ptr<TrainableModel>& inner() const noexcept { return inner_; }

 private:
  std::shared_ptr<TrainableModel> inner_;
};

}  // namespace tw
