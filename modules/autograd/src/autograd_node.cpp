// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <tw/autograd/autograd_node.hpp>
#include <tw/base/contract.hpp>

#include <utility>

namespace tw {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Holder : torch::CustomClassHolder {
  explicit Holder(NodeFunctions f) : functions(std::move(f)) {}
  NodeFunctions functions;
};

struct PassNode : torch::autograd::Function<PassNode> {
  static variable_list forward(AutogradContext* ctx, at::TensorList /*inputs*/, NodeFunctions* functions) {
    variable_list outputs = functions->forward();
    ctx->saved_data["functions"] = c10::IValue::make_capsule(c10::make_intrusive<Holder>(std::move(*functions)));
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& cotangents) {
    const c10::IValue functions = ctx->saved_data["functions"];
    TW_EXPECTS(functions.isCapsule(), "a second backward pass needs tensors that the first one freed: pass retain_graph = true to the first one");
    if (!torch::autograd::get_current_graph_task_keep_graph()) ctx->saved_data["functions"] = c10::IValue();
    const c10::intrusive_ptr<torch::CustomClassHolder> capsule = functions.toCapsule();
    variable_list gradients = dynamic_cast<Holder&>(*capsule).functions.backward(cotangents);
    gradients.emplace_back();  // for the functions argument
    return gradients;
  }
};

}  // namespace

std::vector<at::Tensor> make_node(const std::vector<at::Tensor>& inputs, NodeFunctions functions) {
  return PassNode::apply(at::TensorList(inputs), &functions);
}

}  // namespace tw
