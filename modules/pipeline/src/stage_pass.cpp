// SPDX-License-Identifier: Apache-2.0
#include "stage_pass.hpp"

#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace tw::pipeline {
namespace {

/// Puts buffers back as they were. Without autograd's knowledge: graphs that saved them do not look at their values in training.
class BuffersGuard {
 public:
  explicit BuffersGuard(const torch::nn::Module& module) : buffers_(module.buffers()) {
    for (const at::Tensor& each : buffers_) values_.push_back(each.variable_data().clone());
  }
  ~BuffersGuard() {
    for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].variable_data().copy_(values_[i]);
  }
  BuffersGuard(const BuffersGuard&) = delete;
  BuffersGuard& operator=(const BuffersGuard&) = delete;

 private:
  std::vector<at::Tensor> buffers_;
  std::vector<at::Tensor> values_;
};

bool has_cotangents(const at::Tensor& tensor) { return tensor.is_floating_point() || tensor.is_complex(); }

}  // namespace

StagePass::StagePass(torch::nn::Module& module, Function function, std::vector<at::Tensor> inputs, std::vector<uint8_t> wants, bool keeps_graph)
    : module_(&module), function_(std::move(function)), inputs_(std::move(inputs)), wants_(std::move(wants)), keeps_graph_(keeps_graph) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (wants_[i] != 0) inputs_[i] = inputs_[i].detach().set_requires_grad(true);
  }
}

/// The forward pass with its graph.
std::vector<at::Tensor> StagePass::record() {
  const c10::AutoGradMode gradients(true);
  // A block may work in place, but not on a leaf, nor on a view of one.
  std::vector<at::Tensor> inputs(inputs_);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (wants_[i] != 0) inputs[i] = at::_unsafe_view(inputs_[i], inputs_[i].sizes());
  }
  const std::vector<at::Tensor> outputs = function_(inputs);
  std::vector<at::Tensor> detached;
  for (const at::Tensor& output : outputs) {
    ends_.push_back(output.requires_grad() ? torch::autograd::impl::gradient_edge(output) : torch::autograd::Edge());
    detached.push_back(output.detach());
  }
  // Autograd saves what it needs of the inputs; their leaves are only where cotangents gather.
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (wants_[i] != 0) inputs_[i].set_data(at::zeros({1}, inputs_[i].options().requires_grad(false)).expand(inputs_[i].sizes()));
  }
  return detached;
}

std::vector<at::Tensor> StagePass::forward() {
  if (keeps_graph_) {
    std::vector<at::Tensor> outputs = record();
    for (const torch::autograd::Edge& end : ends_) wanted_.push_back(static_cast<uint8_t>(end.is_valid()));
    return outputs;
  }
  const c10::AutoGradMode no_gradients(false);
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& each : inputs_) inputs.push_back(each.detach().clone());  // a block may work in place
  std::vector<at::Tensor> outputs = function_(inputs);
  const auto trained = module_->parameters();
  const bool any = std::any_of(trained.begin(), trained.end(), [](const at::Tensor& each) { return each.requires_grad(); }) ||
                   std::any_of(wants_.begin(), wants_.end(), [](uint8_t each) { return each != 0; });
  for (const at::Tensor& output : outputs) wanted_.push_back(static_cast<uint8_t>(any && has_cotangents(output)));
  return outputs;
}

std::vector<at::Tensor> StagePass::backward(const std::vector<at::Tensor>& cotangents) {
  if (!keeps_graph_) {
    const BuffersGuard buffers(*module_);
    record();
  }
  torch::autograd::edge_list ends;
  std::vector<at::Tensor> arriving;
  for (size_t i = 0; i < ends_.size(); ++i) {
    if (!ends_[i].is_valid()) continue;
    ends.push_back(std::move(ends_[i]));
    arriving.push_back(cotangents[i]);
  }
  ends_.clear();
  function_ = nullptr;
  if (!ends.empty()) torch::autograd::Engine::get_default_engine().execute(ends, arriving, false, false, true);
  std::vector<at::Tensor> leaving(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (wants_[i] != 0) leaving[i] = inputs_[i].grad().defined() ? inputs_[i].grad() : at::zeros_like(inputs_[i]);
  }
  inputs_.clear();
  return leaving;
}

}  // namespace tw::pipeline
