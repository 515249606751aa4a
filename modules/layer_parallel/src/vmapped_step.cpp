// SPDX-License-Identifier: Apache-2.0
#include "vmapped_step.hpp"

#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/PlumbingHelper.h>
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

struct VmappedStep::Trace {
  std::shared_ptr<torch::jit::Graph> graph;
  torch::jit::Code code;
};

VmappedStep::VmappedStep(std::shared_ptr<torch::jit::Graph> graph) : trace_(std::make_unique<Trace>(Trace{graph, torch::jit::Code(graph, "step")})) {}

VmappedStep::~VmappedStep() = default;

bool VmappedStep::has_convolutions() const noexcept {
  const auto nodes = trace_->graph->nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const torch::jit::Node* node) {
    return std::string_view(node->kind().toUnqualString()).find("conv") != std::string_view::npos;
  });
}

State VmappedStep::run(const State& states, const State& extras, const std::vector<at::Tensor>& parameters) const {
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
