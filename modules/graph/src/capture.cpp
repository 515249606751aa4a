// SPDX-License-Identifier: Apache-2.0
#include <tw/graph/capture.hpp>

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/numbers.hpp>
#include <tw/tensor/generator.hpp>
#include <tw/tensor/memory_order.hpp>
#include <tw/tensor/tensor_copies.hpp>

#include "arguments.hpp"
#include "builder.hpp"
#include "faithful.hpp"
#include "row_places.hpp"

namespace tw::graph {
namespace {

/// @param changed what the run leaves in the buffers, where anyone asks
Run run(const Forward& forward, const std::vector<NamedTensor>& buffers, const std::vector<at::Tensor>& inputs,
        std::vector<at::Tensor>* changed = nullptr) {
  const GeneratorGuard generator;
  const KeptTensors kept(buffers);
  const torch::jit::GraphOptimizerEnabledGuard as_written(false);  // of TorchScript, which otherwise runs other operators the second time
  Run made;
  for (const at::Tensor& each : inputs) made.inputs.push_back(each.clone());  // it may work in place
  made.calls = recorded([&] { made.outputs = forward(made.inputs); });
  for (const NamedTensor& buffer : buffers) {
    if (changed != nullptr) changed->push_back(buffer.tensor.detach().clone());
  }
  return made;
}

/// `graph` with what differs in `other` as a function of the rows.
Graph of_any_rows(Graph graph, int64_t rows, const Graph& other, int64_t other_rows) {
  if (graph.nodes.size() != other.nodes.size()) {
    const auto [here, there] = std::ranges::mismatch(graph.nodes, other.nodes, {}, &Node::op, &Node::op);
    const auto next = [&](const auto& node, const Graph& of) { return node == of.nodes.end() ? "nothing" : node->op; };
    throw Error(concat("the module calls ", graph.nodes.size(), " operators for ", rows, " rows and ", other.nodes.size(), " for ", other_rows,
                       "; operator ", here - graph.nodes.begin(), " is ", next(here, graph), " and ", next(there, other)));
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    const Node& twin = other.nodes[i];
    const std::string where = concat("operator ", i, ", ", node.op);
    if (node.op != twin.op || node.overload != twin.overload || node.outputs != twin.outputs) {
      throw Error(concat(where, ": for ", other_rows, " rows in place of ", rows, " it is ", twin.op));
    }
    if (node.answer != twin.answer) throw Error(concat(where, ": it answers otherwise for ", other_rows, " rows than for ", rows));
    for (size_t k = 0; k < node.arguments.size(); ++k) {
      try {
        node.arguments[k] = with_rows(node.arguments[k], rows, twin.arguments[k], other_rows);
      } catch (const Error& error) {
        throw Error(concat(where, ", argument ", k, ": ", error.what()));
      }
    }
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    Value& value = graph.values[i];
    const Value& twin = other.values[i];
    if (value.sizes.size() != twin.sizes.size()) throw Error("a tensor has another number of dimensions when there are more rows");
    for (size_t k = 0; k < value.sizes.size(); ++k) value.sizes[k] = with_rows(value.sizes[k].fixed, rows, twin.sizes[k].fixed, other_rows);
    value.order = twin.order;  // a single row's would say little
  }
  for (size_t i = 0; i < graph.constants.size(); ++i) {
    if (!at::equal(graph.constants[i].second, other.constants[i].second)) {
      throw Error(concat("a tensor of shape ", graph.constants[i].second.sizes(), " that comes from outside differs between two runs"));
    }
  }
  return graph;
}

}  // namespace

Graph capture(const Forward& forward, const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
              const std::vector<at::Tensor>& example) {
  TW_EXPECTS(!example.empty(), "an example has one tensor at least");
  for (const at::Tensor& each : example) {
    TW_EXPECTS(each.dim() > 0 && each.size(0) > 0 && each.size(0) == example[0].size(0), "the tensors of an example have equally many rows");
  }
  std::vector<at::Tensor> twice;
  for (const at::Tensor& each : example) twice.push_back(in_order(at::cat({each, each}), memory_order(each)));
  const int64_t rows = example[0].size(0);
  const Run one = run(forward, buffers, example);
  Graph graph = [&] {
    const Run two = run(forward, buffers, twice);
    return of_any_rows(graph_of(one, parameters, buffers), rows, graph_of(two, parameters, buffers), 2 * rows);
  }();
  for (const int output : graph.outputs) {
    if (!graph.values[at(output)].of_batch) throw Error("an output of the module does not depend on its inputs");
  }
  place_rows(graph, example, parameters, buffers);
  std::vector<at::Tensor> changed;
  const std::vector<at::Tensor> turned = rotated(example);
  std::vector<at::Tensor> outputs = run(forward, buffers, turned, &changed).outputs;
  for (at::Tensor& each : outputs) each = each.detach();  // the tape goes
  expect_faithful(graph, one, {turned, outputs, changed}, parameters, buffers);
  return graph;
}

Graph capture_call(const Forward& function, const std::vector<NamedTensor>& parameters, const std::vector<at::Tensor>& inputs) {
  return graph_of(run(function, {}, inputs), parameters, {});
}

}  // namespace tw::graph
