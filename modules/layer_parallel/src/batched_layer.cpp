// SPDX-License-Identifier: Apache-2.0
#include "batched_layer.hpp"

#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/PlumbingHelper.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <algorithm>
#include <string_view>

namespace tw::layer_parallel {
namespace {

namespace functorch = at::functorch;

/// A level of vmap, while this lives.
class VmapLevel {
 public:
  explicit VmapLevel(int64_t n)
      : level_(functorch::initAndPushDynamicLayer(functorch::TransformType::Vmap, c10::SymInt(n), functorch::RandomnessType::Error)) {}
  ~VmapLevel() { functorch::popDynamicLayerAndDeleteMetadata(); }
  VmapLevel(const VmapLevel&) = delete;
  VmapLevel& operator=(const VmapLevel&) = delete;

  at::Tensor wrap(const at::Tensor& stacked) const { return functorch::makeBatched(stacked, 0, level_); }
  /// Stacked along the first dimension.
  at::Tensor unwrap(const at::Tensor& batched, int64_t n) const {
    auto [tensor, dimension] = functorch::unwrapTensorAtLevel(batched, level_);
    if (dimension) return tensor.movedim(*dimension, 0);
    auto shape = tensor.sizes().vec();
    shape.insert(shape.begin(), n);
    return tensor.expand(shape);
  }

 private:
  int64_t level_;
};

}  // namespace

struct BatchedLayer::Trace {
  std::shared_ptr<torch::jit::Graph> graph;
  torch::jit::Code code;
};

BatchedLayer::BatchedLayer(const Layer& layer, const std::vector<at::Tensor>& parameters, const State& example, const State& extras, double dt) {
  const c10::AutoGradMode no_gradients(false);
  torch::jit::Stack inputs;
  for (const at::Tensor& tensor : example) inputs.emplace_back(tensor);
  for (const at::Tensor& tensor : extras) inputs.emplace_back(tensor);
  for (const at::Tensor& tensor : parameters) inputs.emplace_back(tensor);
  const auto call = [&](torch::jit::Stack stack) {
    State state;
    State given;
    for (size_t i = 0; i < example.size() + extras.size(); ++i) (i < example.size() ? state : given).push_back(stack[i].toTensor());
    torch::jit::Stack outputs;
    for (const at::Tensor& tensor : layer.forward(state, given, dt)) outputs.emplace_back(tensor);
    return outputs;
  };
  const auto traced = torch::jit::tracer::trace(std::move(inputs), call, [](const at::Tensor&) { return std::string(); }, /*strict=*/false);
  trace_ = std::make_unique<Trace>(Trace{traced.first->graph, torch::jit::Code(traced.first->graph, "layer")});
}

BatchedLayer::~BatchedLayer() = default;

bool BatchedLayer::has_convolutions() const noexcept {
  const auto nodes = trace_->graph->nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const torch::jit::Node* node) {
    return std::string_view(node->kind().toUnqualString()).find("conv") != std::string_view::npos;
  });
}

State BatchedLayer::run(const State& states, const State& extras, const std::vector<at::Tensor>& parameters) const {
  const int64_t n = states.front().size(0);
  const VmapLevel level(n);
  torch::jit::Stack stack;
  for (const at::Tensor& tensor : states) stack.emplace_back(level.wrap(tensor));
  for (const at::Tensor& tensor : extras) stack.emplace_back(tensor);
  for (const at::Tensor& tensor : parameters) stack.emplace_back(level.wrap(tensor));
  torch::jit::InterpreterState(trace_->code).run(stack);
  State outputs;
  for (const c10::IValue& value : stack) outputs.push_back(level.unwrap(value.toTensor(), n));
  return outputs;
}

}  // namespace tw::layer_parallel
