// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/modules/linear.h>

#include <memory>
#include <tw/gradients/module_modes.hpp>
#include <tw/gradients/trainable_model.hpp>
#include <tw/layer_parallel/recurrent.hpp>
#include <vector>

namespace tw::layer_parallel {

/// A model for the trainer: a Recurrent network, then a linear layer on each sequence's final state. The time steps are divided among the ranks along
/// the mesh axis `layer`. Each rank receives whole sequences, and has all parameters: "recurrent.weight_ih_l0", ..., "linear.bias".
class SequenceModel : public torch::nn::Module, public TrainableModel, public IteratedNetwork {
 public:
  /// Collective. @param comm the axis `layer`; duplicated @param outputs the shape of the output for one sequence, such as {10}; {}: one number
  SequenceModel(const Communicator& comm, const RecurrentOptions& options, std::vector<int64_t> outputs);
  ~SequenceModel() override;

  /// Runs the model. Collective, and so is the backward pass. @param inputs [n, ...], viewed as [n, steps, input_size]; the same on every rank
  /// @return [n, outputs...] on every rank. Every rank must pass the same cotangent. If `inputs` require a gradient, every rank gets the whole one.
  /// @throws ContractError on every rank alike, naming ranks, if the ranks' inputs differ in shape, dtype or requires_grad
  at::Tensor forward(const at::Tensor& inputs) override;

  std::vector<std::string> axes() const override { return {"layer"}; }
  std::vector<const Communicator*> communicators() const override { return {&comm()}; }
  ModelTensors tensors() const override { return model_tensors(*this); }
  const torch::nn::Module* module() const override { return this; }
  void set_training(bool training) override { switch_.set(*this, training); }
  void report_phases(OnPhase on_phase) override;

  void set_iterations(Iterations iterations) override { recurrent_->set_iterations(iterations); }
  Iterations iterations() const override { return recurrent_->iterations(); }
  void observe(PhaseObserver observer) override { recurrent_->observe(std::move(observer)); }
  NetworkReport report() const override { return recurrent_->report(); }
  const Communicator& comm() const noexcept override { return recurrent_->comm(); }

 private:
  std::shared_ptr<Recurrent> recurrent_;
  std::vector<int64_t> outputs_;
  torch::nn::Linear linear_{nullptr};
  TrainingSwitch switch_;
};

}  // namespace tw::layer_parallel
