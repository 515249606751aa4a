// SPDX-License-Identifier: Apache-2.0
#include "operator_run.hpp"

#include <tw/base/numbers.hpp>

namespace tw::splits {

graph::Graph graph_of_node(const graph::Graph& graph, const graph::Node& node) {
  graph::Graph alone;
  graph::Node copy = node;
  const auto add = [&](int of, graph::Value::Kind kind) {
    graph::Value value = graph.values[at(of)];
    value.kind = kind;
    value.name.clear();
    value.storage = static_cast<int64_t>(alone.values.size());
    alone.values.push_back(std::move(value));
    return static_cast<int>(alone.values.size()) - 1;
  };
  const auto add_input = [&](graph::Ref& ref) {
    if (ref.value < 0) return;
    ref.value = add(ref.value, graph::Value::Kind::input);
    alone.inputs.push_back(ref.value);
  };
  for (graph::Argument& argument : copy.arguments) {
    if (auto* ref = std::get_if<graph::Ref>(&argument)) add_input(*ref);
    if (auto* refs = std::get_if<std::vector<graph::Ref>>(&argument)) {
      for (graph::Ref& each : *refs) add_input(each);
    }
  }
  for (int& output : copy.outputs) {
    if (output < 0) continue;
    output = add(output, graph::Value::Kind::computed);
    alone.outputs.push_back(output);
  }
  alone.nodes.push_back(std::move(copy));
  return alone;
}

OperatorRun::OperatorRun(const graph::Graph& graph, const graph::Node& node)
    : interpreter_(graph_of_node(graph, node), [](const std::string& /*name*/) { return at::Tensor(); }) {}

std::vector<at::Tensor> OperatorRun::operator()(const std::vector<at::Tensor>& inputs, int64_t rows) const {
  return interpreter_.run(inputs, {.rows = rows});
}

}  // namespace tw::splits
