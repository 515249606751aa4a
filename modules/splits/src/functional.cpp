// SPDX-License-Identifier: Apache-2.0
#include "functional.hpp"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <set>
#include <tw/base/numbers.hpp>
#include <tw/tensor/memory_order.hpp>

#include "operator_run.hpp"
#include "value_sizes.hpp"

namespace tw::splits {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

/// The operator that returns a new tensor, if it takes the same arguments; empty otherwise.
std::string twin_of(const Node& node) {
  if (!node.op.ends_with('_') || node.op.ends_with("__")) return "";
  const std::string twin = node.op.substr(0, node.op.size() - 1);
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto in_place = dispatcher.findSchema({node.op, node.overload});
  const auto functional = dispatcher.findSchema({twin, node.overload});
  if (!in_place || !functional || in_place->hasTag(at::Tag::nondeterministic_seeded)) return "";  // random numbers depend on the operator
  const auto& a = in_place->schema().arguments();
  const auto& b = functional->schema().arguments();
  const auto same = [](const c10::Argument& x, const c10::Argument& y) { return x.name() == y.name() && *x.type() == *y.type(); };
  return std::ranges::equal(a, b, same) ? twin : "";
}

/// Whether the node returns a tensor like the one that it changed: gt_() keeps the type of numbers, and gt() returns booleans.
bool returns_alike(const Graph& graph, const Node& node) {
  const int64_t rows = std::max<int64_t>(2, graph.min_rows);
  std::vector<at::Tensor> inputs;
  for (const int value : node.inputs()) {
    const Value& of = graph.values[at(value)];
    inputs.push_back(empty_in_order(sizes_of(of, rows), at::TensorOptions(of.dtype).device(at::kMeta), of.order));
  }
  const Value& output = graph.values[at(node.outputs[0])];
  try {
    const at::Tensor result = OperatorRun(graph, node)(inputs, rows).at(0);
    return result.scalar_type() == output.dtype && result.sizes().equals(sizes_of(output, rows));
  } catch (const std::exception&) {  // not without values
    return false;
  }
}

/// Whether nothing but the result of node `i` shows the memory that it changes, from there on.
bool is_hidden(const Graph& graph, size_t i, int64_t storage) {
  std::set<int> shown;  // values that exist before the node's result
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    if (value.storage != storage) continue;
    if (value.kind != Value::Kind::computed) return false;
    shown.insert(static_cast<int>(v));
  }
  for (size_t j = i; j < graph.nodes.size(); ++j) {
    const auto is_shown = [&](int value) { return shown.contains(value); };
    if (j > i && std::ranges::any_of(graph.nodes[j].inputs(), is_shown)) return false;
    for (const int output : graph.nodes[j].outputs) shown.erase(output);
  }
  return std::ranges::none_of(graph.outputs, [&](int value) { return shown.contains(value); });
}

}  // namespace

Graph functional(Graph graph) {
  int64_t storages = 0;
  for (const Value& value : graph.values) storages = std::max(storages, value.storage + 1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (node.changes.size() != 1 || node.outputs.size() != 1 || node.outputs[0] < 0 || !node.with_gradient) continue;
    const int64_t storage = graph.values[at(node.changes[0])].storage;
    if (storage < 0 || !is_hidden(graph, i, storage)) continue;
    Node twin = node;
    twin.op = twin_of(node);
    twin.changes.clear();
    if (twin.op.empty() || !returns_alike(graph, twin)) continue;
    node = std::move(twin);
    for (size_t j = i; j < graph.nodes.size(); ++j) {
      for (const int output : graph.nodes[j].outputs) {
        if (output >= 0 && graph.values[at(output)].storage == storage) graph.values[at(output)].storage = storages;
      }
    }
    ++storages;
  }
  return graph;
}

}  // namespace tw::splits
