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

/// The mean over the samples of a batch; 0-dimensional.
using LossFunction = std::function<at::Tensor(const at::Tensor& outputs, const at::Tensor& targets)>;

/// The tensors of a model that a rank has.
struct ModelTensors {
  std::vector<NamedTensor> parameters;              ///< each once; those that require a gradient are trained
  std::vector<NamedTensor> buffers = {};            ///< each once, such as running means; rank 0's count
  std::map<std::string, std::string> aliases = {};  ///< further names of tied tensors, each to the one that is listed
  std::vector<std::string> sparse = {};             ///< names of parameters whose gradients are sparse
  std::vector<std::string> renormalised = {};       ///< names of trained parameters that forward passes change: of embeddings with max_norm

  /// Parameters and then buffers.
  std::vector<NamedTensor> all_tensors() const;
  /// On which the first parameter lies; the CPU where this rank has none.
  c10::Device device() const;
  /// Elements of all trained parameters.
  int64_t trained_elements() const;
  /// The tensors of `parameters` alone, for an optimizer.
  std::vector<at::Tensor> tensors() const;
  /// @throws ContractError naming one of `renormalised`: each replica would change other rows of it, and the replicas would drift apart
  void expect_replicable() const;
};

/// The tensors of `module`.
ModelTensors model_tensors(const torch::nn::Module& module);

/// Arguments of a training pass, and the callback that it calls. All are borrowed.
struct TrainingPass {
  const at::Tensor& inputs;   ///< [n, ...], n > 0
  const at::Tensor& targets;  ///< [n] or [n, ...]
  const LossFunction& loss;
  double weight = 1;   ///< of the gradient of the mean loss
  int64_t number = 0;  ///< among the passes of a run; what random layers draw may depend on it
  int64_t epoch = 1;   ///< from 1
  /// Called once, when the loss is known and before gradients are reduced; outputs are undefined where this rank has none. May put another loss in
  /// its place, which counts where TrainableModel::makes_one_backward_pass(). May be empty.
  std::function<void(const at::Tensor& outputs, at::Tensor& loss)> on_loss = {};
};

/// Receives the times at which a phase of a pass began and ended on this rank, for timelines. @param name a literal
using OnPhase = std::function<void(const char* name, std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end)>;

/// What is trained, wherever its parameters lie: whole on each rank, or in parts that several ranks hold together. Whoever trains knows no more of
/// it; what ranks along a `data` axis do with the gradients is not its business.
///
/// The ranks that hold one model together take the same samples, and call forward() and pass() together, with equally many rows.
class TrainableModel {
 public:
  virtual ~TrainableModel() = default;

  /// The axes of a mesh along which ranks hold it together. Empty: each rank has the whole model.
  virtual std::vector<std::string> axes() const { return {}; }
  /// The ranks along those axes, where the model knows them and several of them may have the same parameter; otherwise null. See model_parts().
  virtual const Communicator* holders() const { return nullptr; }
  /// This rank's. The same tensors at each call.
  virtual ModelTensors tensors() const = 0;
  /// Parameters, buffers and whatever else a checkpoint needs of it; shares memory. As it stands here: all of tensors(), whole on each rank.
  virtual std::vector<NamedShard> shards() const;
  /// Where the trained parameters lie in the whole model, for OptimizerState. As it stands here: whole.
  virtual std::vector<OptimizedTensor> optimized_tensors() const;
  /// Parameters and buffers of the whole model on rank 0 of `holders`, as one process would have them; nothing elsewhere. Collective over `holders`.
  /// As it stands here: put together from shards(). @param holders the ranks that hold one model together
  virtual std::vector<NamedTensor> whole_on_root(const Communicator& holders) const;

  /// The output on each rank, for evaluation; with a graph of autograd where makes_one_backward_pass(). Collective over those that hold the model.
  /// @param inputs [n, ...], n > 0
  virtual at::Tensor forward(const at::Tensor& inputs) = 0;
  /// The output of forward() where losses and metrics are computed: on at least one of the ranks that hold the model and look at samples, the same
  /// ones in each call; undefined elsewhere. Collective over those that hold the model. As it stands here: forward(), on each rank.
  virtual at::Tensor evaluate(const at::Tensor& inputs) { return forward(inputs); }
  /// Forward and backward pass: adds to `.grad()` of this rank's parameters. Collective over those that hold the model. As it stands here: forward()
  /// and autograd, the latter outside autocast (AutocastState::off()) where pass() is called under it.
  virtual void pass(const TrainingPass& pass);
  /// Whether pass() is one backward pass of autograd, so that a reducer may take each gradient as it comes. Otherwise gradients are there when it
  /// returns.
  virtual bool makes_one_backward_pass() const { return true; }
  /// Whether this rank looks at inputs or targets. Others get the same number of rows, without content.
  virtual bool needs_samples() const { return true; }
  virtual void set_training(bool /*training*/) {}  ///< true: submodules get the modes back that false took from them; without that, see whole_model()
  /// Which of the models along a `data` axis this is, from 0, so that each draws other random numbers. On all ranks that hold it alike. As it stands
  /// here: nothing, for layers that draw from LibTorch's generators, which the trainer seeds by rank of that axis.
  virtual void set_replica(int64_t /*replica*/) {}
  /// Reports the phases of all later passes to `on_phase`. Empty: stops the reports.
  virtual void tell_phases(OnPhase /*on_phase*/) {}  // NOLINT(performance-unnecessary-value-param): overrides store it

 protected:
  TrainableModel() = default;
  TrainableModel(const TrainableModel&) = default;
  TrainableModel& operator=(const TrainableModel&) = default;
};

/// A module that each rank has whole. @param forward calls it
std::shared_ptr<TrainableModel> whole_model(std::shared_ptr<torch::nn::Module> module, std::function<at::Tensor(const at::Tensor&)> forward);

/// A model that forwards calls to another one, unless they are overridden. Its evaluate() is its own forward(), unless that is overridden, too.
class ModelOverModel : public TrainableModel {
 public:
  explicit ModelOverModel(std::shared_ptr<TrainableModel> inner) : inner_(std::move(inner)) {}

  std::vector<std::string> axes() const override { return inner_->axes(); }
  const Communicator* holders() const override { return inner_->holders(); }
  ModelTensors tensors() const override { return inner_->tensors(); }
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
