// SPDX-License-Identifier: Apache-2.0
#include "flow.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tw/base/numbers.hpp>

namespace tw::graph {
namespace {

/// Marks in `dropped` the nodes that neither depend on the batch nor have a user.
void drop_unused(const Graph& graph, std::vector<bool>& dropped) {
  std::set<int64_t> needed;  // storages
  const auto need = [&](int value) {
    if (value >= 0) needed.insert(graph.values[at(value)].storage);
  };
  for (const Value& value : graph.values) {
    if (value.kind == Value::Kind::parameter || value.kind == Value::Kind::buffer) needed.insert(value.storage);
  }
  std::ranges::for_each(graph.outputs, need);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    const auto serves = [&](int value) { return value >= 0 && needed.contains(graph.values[at(value)].storage); };
    const bool has_user = std::ranges::any_of(node.outputs, serves) || std::ranges::any_of(node.changes, serves);
    if (!node.of_batch && !node.answer && !has_user) dropped[i] = true;
    if (!dropped[i]) std::ranges::for_each(node.inputs(), need);
  }
}

}  // namespace

Reach reach_of(const Graph& graph, const std::function<bool(const Value&)>& begins_in, const std::function<bool(const Node&)>& begins_at) {
  Reach reach{std::vector<bool>(graph.nodes.size(), false), {}};
  std::set<int64_t> storages;  // changed storages
  for (const Value& value : graph.values) reach.values.push_back(begins_in(value));
  const auto is_reached = [&](int value) { return value >= 0 && (reach.values[at(value)] || storages.contains(graph.values[at(value)].storage)); };
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      const bool here =
          reach.nodes[i] || begins_at(node) || std::ranges::any_of(node.inputs(), is_reached) || std::ranges::any_of(node.outputs, is_reached);
      if (!here) continue;
      grows = grows || !reach.nodes[i];
      reach.nodes[i] = true;
      for (const int output : node.outputs) {
        if (output < 0 || reach.values[at(output)]) continue;
        reach.values[at(output)] = grows = true;
      }
      for (const int changed : node.changes) {
        const int64_t storage = graph.values[at(changed)].storage;
        if (storage >= 0) grows = storages.insert(storage).second || grows;
      }
    }
  }
  return reach;
}

bool looks_past_views(const Node& node) { return node.op.starts_with("aten::as_strided"); }

void mark_batch(Graph& graph) {
  const Reach batch = reach_of(graph, [](const Value& value) { return value.kind == Value::Kind::input; }, [](const Node&) { return false; });
  for (size_t v = 0; v < graph.values.size(); ++v) graph.values[v].of_batch = batch.values[v];
  for (size_t i = 0; i < graph.nodes.size(); ++i) graph.nodes[i].of_batch = batch.nodes[i];
}

void share_memory(Graph& graph, const Graph& other) {
  std::map<int64_t, int64_t> here_of;  // by storage of `other`: its first counterpart in `graph`
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const int64_t there = other.values[v].storage;
    const int64_t here = graph.values[v].storage;
    if (there < 0 || here < 0) continue;
    const int64_t first = here_of.emplace(there, here).first->second;
    if (first == here) continue;
    for (Value& each : graph.values) {
      if (each.storage == here) each.storage = first;
    }
    for (auto& [storage, of_it] : here_of) {
      if (of_it == here) of_it = first;
    }
  }
  mark_batch(graph);
}

Graph without(const Graph& graph, std::vector<bool> dropped) {
  drop_unused(graph, dropped);
  Graph kept;
  std::map<int, int> index;
  std::map<int64_t, int64_t> storage_of;
  const auto renumbered = [&](int value) {
    if (value < 0) return value;
    const auto [found, is_new] = index.emplace(value, static_cast<int>(kept.values.size()));
    if (is_new) {
      Value& added = kept.values.emplace_back(graph.values[at(value)]);
      if (added.storage >= 0) added.storage = storage_of.emplace(added.storage, static_cast<int64_t>(storage_of.size())).first->second;
    }
    return found->second;
  };
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.values[i].kind != Value::Kind::computed && graph.values[i].kind != Value::Kind::constant) renumbered(static_cast<int>(i));
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (dropped[i]) continue;
    Node node = graph.nodes[i];
    for (Argument& argument : node.arguments) {
      if (auto* ref = std::get_if<Ref>(&argument)) ref->value = renumbered(ref->value);
      if (auto* refs = std::get_if<std::vector<Ref>>(&argument)) {
        for (Ref& each : *refs) each.value = renumbered(each.value);
      }
    }
    for (int& output : node.outputs) output = renumbered(output);
    for (int& changed : node.changes) changed = renumbered(changed);
    kept.nodes.push_back(std::move(node));
  }
  for (const int input : graph.inputs) kept.inputs.push_back(renumbered(input));
  for (const int output : graph.outputs) kept.outputs.push_back(renumbered(output));
  for (const auto& [value, tensor] : graph.constants) {
    if (index.contains(value)) kept.constants.emplace_back(index.at(value), tensor);
  }
  return kept;
}

}  // namespace tw::graph
