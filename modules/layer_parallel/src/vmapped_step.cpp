// SPDX-License-Identifier: Apache-2.0
#include "vmapped_step.hpp"

#include <ATen/functorch/BatchedFallback.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/DynamicLayer.h>
#include <ATen/functorch/PlumbingHelper.h>

#include <numeric>
#include <tw/parallel_in_time/states.hpp>

namespace tw::layer_parallel {
namespace {

namespace functorch = at::functorch;

/// A level of vmap while it lives. An operation without a vmap rule throws: the fallback loop over the layers would gain nothing, and warn each time.
class VmapLevel {
 public:
  explicit VmapLevel(int64_t n)
      : level_(functorch::initAndPushDynamicLayer(functorch::TransformType::Vmap, c10::SymInt(n), functorch::RandomnessType::Error)) {
    functorch::setVmapFallbackEnabled(false);
  }
  ~VmapLevel() {
    functorch::setVmapFallbackEnabled(had_fallback_);
    functorch::popDynamicLayerAndDeleteMetadata();
  }
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
  bool had_fallback_ = functorch::isVmapFallbackEnabled();
  int64_t level_;
};

/// An interpreter of a graph whose parameters are inputs, after the other inputs.
graph::Interpreter interpreter_of(const graph::Graph& graph) {
  std::vector<int> nodes(graph.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  std::vector<int> inputs = graph.inputs;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].kind == graph::Value::Kind::parameter) inputs.push_back(static_cast<int>(v));
  }
  return {graph, nodes, inputs, graph.outputs, {}};
}

}  // namespace

VmappedStep::VmappedStep(const graph::Graph& graph) : interpreter_(interpreter_of(graph)) {}

State VmappedStep::run(const State& states, const State& extras, const std::vector<at::Tensor>& parameters) const {
  const int64_t n = states.front().size(0);
  const VmapLevel level(n);
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& tensor : states) inputs.push_back(level.wrap(tensor));
  inputs.insert(inputs.end(), extras.begin(), extras.end());
  for (const at::Tensor& tensor : parameters) inputs.push_back(level.wrap(tensor));
  return each(interpreter_.run(inputs, {}), [&](const at::Tensor& output) { return level.unwrap(output, n); });
}

}  // namespace tw::layer_parallel
