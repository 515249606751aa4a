// SPDX-License-Identifier: Apache-2.0
#include "stage_pass.hpp"

#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <tw/autograd/autocast.hpp>
#include <tw/autograd/generator.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/tensor/tensor_snapshot.hpp>
#include <utility>

#include "tensor_version.hpp"

namespace tw::pipeline {
namespace {

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); });
}

/// The version counter of each parameter.
std::vector<uint32_t> versions_of(const std::vector<at::Tensor>& parameters) {
  std::vector<uint32_t> versions;
  for (const at::Tensor& each : parameters) versions.push_back(version_of(each));
  return versions;
}

/// @param why what would be wrong otherwise; follows the parameter's name
void expect_unchanged(const torch::nn::Module& module, const std::vector<uint32_t>& versions, const char* why) {
  if (versions_of(module.parameters()) == versions) return;
  const auto named = module.named_parameters();
  for (size_t i = 0; i < named.size(); ++i) {
    if (versions_of({named[i].value()}).front() == versions[i]) continue;
    throw Error(concat("parameter '", named[i].key(), "' ", why, ": use Recompute::none for this stage"));
  }
}

bool has_cotangents(const at::Tensor& tensor) { return tensor.is_floating_point() || tensor.is_complex(); }

}  // namespace

StagePass::StagePass(torch::nn::Module& module, const std::vector<Function>& segments, bool keeps_graph, const Manner& manner)
    : module_(&module), keeps_graph_(keeps_graph), manner_(manner) {
  for (const Function& each : segments) segments_.push_back({each});
}

/// Runs without a graph.
std::vector<at::Tensor> StagePass::Segment::run() const {
  const c10::AutoGradMode no_gradients(false);
  std::vector<at::Tensor> copies;
  for (const at::Tensor& each : inputs) copies.push_back(each.detach().clone());  // a block may work in place
  return function(copies);
}

/// Runs the forward pass and records its graph.
std::vector<at::Tensor> StagePass::Segment::record() {
  const c10::AutoGradMode gradients(true);
  // A block may work in place, but not on a leaf or a view of one.
  std::vector<at::Tensor> views(inputs);
  for (size_t i = 0; i < views.size(); ++i) {
    if (wants[i] != 0) views[i] = at::_unsafe_view(inputs[i], inputs[i].sizes());
  }
  const std::vector<at::Tensor> outputs = function(views);
  std::vector<at::Tensor> detached;
  for (const at::Tensor& output : outputs) {
    ends.push_back(output.requires_grad() ? torch::autograd::impl::gradient_edge(output) : torch::autograd::Edge());
    detached.push_back(output.detach());
  }
  has_graph = true;
  // Autograd saves the inputs that it needs; the leaves only collect cotangents.
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (wants[i] != 0) inputs[i].set_data(at::zeros({1}, inputs[i].options().requires_grad(false)).expand(inputs[i].sizes()));
  }
  return detached;
}

/// @return cotangents of the inputs, undefined if nothing depends on them
std::vector<at::Tensor> StagePass::Segment::backward(std::vector<at::Tensor> cotangents) {
  torch::autograd::edge_list used;
  std::vector<at::Tensor> arriving;
  for (size_t i = 0; i < ends.size(); ++i) {
    if (!ends[i].is_valid() || !cotangents[i].defined()) continue;
    used.push_back(std::move(ends[i]));
    arriving.push_back(std::move(cotangents[i]));
  }
  ends.clear();
  function = nullptr;
  if (!used.empty()) {
    const AutocastScope plain(AutocastState::here().off());
    torch::autograd::Engine::get_default_engine().execute(used, arriving, false, false, true);
  }
  std::vector<at::Tensor> leaving(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (wants[i] != 0) leaving[i] = inputs[i].grad();
  }
  return leaving;
}

std::vector<at::Tensor> StagePass::record(Segment& segment) {
  std::optional<WeightGradients::Recording> recording;
  if (manner_.in_halves) recording.emplace(later_);
  return segment.record();
}

std::vector<at::Tensor> StagePass::forward(std::vector<at::Tensor> inputs, const std::vector<uint8_t>& wants) {
  const auto trained = module_->parameters();
  const bool any = manner_.trains || std::any_of(trained.begin(), trained.end(), [](const at::Tensor& each) { return each.requires_grad(); }) ||
                   std::any_of(wants.begin(), wants.end(), [](uint8_t each) { return each != 0; });
  const size_t recomputed = segments_.size() - (keeps_graph_ ? 1 : 0);
  versions_ = recomputed > 0 ? versions_of(trained) : std::vector<uint32_t>();
  if (recomputed > 0) buffers_ = BufferStates(module_->buffers(), manner_.is_alone);
  wanted_ = wants;
  std::vector<at::Tensor> random;
  for (size_t s = 0; s < segments_.size(); ++s) {
    Segment& segment = segments_[s];
    segment.inputs = std::move(inputs);
    segment.wants = std::exchange(wanted_, {});
    for (size_t i = 0; i < segment.inputs.size(); ++i) {
      if (segment.wants[i] != 0) segment.inputs[i] = segment.inputs[i].detach().set_requires_grad(true);
    }
    if (s == recomputed) {
      inputs = record(segment);
      for (const torch::autograd::Edge& end : segment.ends) wanted_.push_back(static_cast<uint8_t>(end.is_valid()));
    } else {
      std::vector<at::Tensor> now = random_states();
      if (!equal(random, now)) random = std::move(now);  // segments that draw no random numbers share one state
      segment.random = random;
      buffers_.add();
      inputs = segment.run();
      if (s + 1 == recomputed) expect_unchanged(*module_, versions_, "is changed by the forward pass, and recomputation would change it again");
      for (const at::Tensor& output : inputs) wanted_.push_back(static_cast<uint8_t>(any && has_cotangents(output)));
    }
  }
  if (recomputed > 0) buffers_.finish();
  return inputs;
}

std::vector<at::Tensor> StagePass::backward(std::vector<at::Tensor> cotangents) {
  std::optional<RestoreOnExit> buffers;
  for (; !segments_.empty(); segments_.pop_back()) {
    Segment& segment = segments_.back();
    if (!segment.has_graph) {
      if (!buffers && !manner_.is_alone)
        expect_unchanged(*module_, versions_, "has been changed by another stage of this rank, so recomputation would not repeat the forward pass");
      if (!buffers) buffers.emplace(module_->buffers());
      buffers_.restore(segments_.size() - 1);
      set_random_states(segment.random);
      record(segment);
    }
    cotangents = segment.backward(std::move(cotangents));
  }
  buffers_ = BufferStates();
  return cotangents;
}

}  // namespace tw::pipeline
