// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/graph/place_in_module.hpp>
#include <tw/graph/torchscript.hpp>

namespace tw::graph {
namespace {

void flatten(const c10::IValue& value, std::vector<at::Tensor>& into) {
  if (value.isTensor()) {
    into.push_back(value.toTensor());
  } else if (value.isTuple()) {
    for (const c10::IValue& each : value.toTupleRef().elements()) flatten(each, into);
  } else if (value.isList()) {
    for (const c10::IValue& each : value.toListRef()) flatten(each, into);
  } else if (value.isGenericDict()) {
    for (const auto& each : value.toGenericDict()) flatten(each.value(), into);
  } else if (!value.isNone()) {
    throw Error(concat("a TorchScript module returns a ", value.tagKind(), ", which is not a tensor"));
  }
}

}  // namespace

// A clone shares the tensors, but has its own functions, which have not run yet.
TorchScript::TorchScript(const torch::jit::Module& module) : script_(std::make_unique<torch::jit::Module>(module.clone(/*inplace=*/true))) {
  for (const auto& each : script_->named_parameters()) {
    const auto [owner, name] = place_in_module(*this, each.name);
    owner.register_parameter(name, each.value, each.value.requires_grad());
  }
  for (const auto& each : script_->named_buffers()) {
    const auto [owner, name] = place_in_module(*this, each.name);
    owner.register_buffer(name, each.value);
  }
  Module::train(script_->is_training());
}

TorchScript::~TorchScript() = default;

std::vector<at::Tensor> TorchScript::forward(const std::vector<at::Tensor>& inputs) {
  const torch::jit::GraphOptimizerEnabledGuard as_written(false);
  std::vector<at::Tensor> outputs;
  flatten(script_->forward({inputs.begin(), inputs.end()}), outputs);
  return outputs;
}

void TorchScript::train(bool on) {
  Module::train(on);
  script_->train(on);
}

}  // namespace tw::graph
