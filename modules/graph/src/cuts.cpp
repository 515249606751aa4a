// SPDX-License-Identifier: Apache-2.0
#include <tw/graph/cuts.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <utility>

#include "flow.hpp"

namespace tw::graph {
namespace {

/// Ranges of nodes, by first and last, that must not be cut.
class Ranges {
 public:
  explicit Ranges(size_t nodes) : last_(nodes) {
    for (size_t i = 0; i < nodes; ++i) last_[i] = i;
  }
  void join(size_t first, size_t last) { last_[first] = std::max(last_[first], last); }
  /// The end of the range that begins at `first`, after all joins.
  size_t end(size_t first) const {
    size_t last = last_[first];
    for (size_t i = first; i <= last; ++i) last = std::max(last, last_[i]);
    return last + 1;
  }

 private:
  std::vector<size_t> last_;
};

/// Storages of parameters and buffers.
std::set<int64_t> storages_of_module(const Graph& graph) {
  std::set<int64_t> storages;
  for (const Value& value : graph.values) {
    if (value.kind == Value::Kind::parameter || value.kind == Value::Kind::buffer) storages.insert(value.storage);
  }
  return storages;
}

/// Memory that a pass changes, and the nodes with a tensor in it as input or output.
struct Changed {
  bool of_module = false;  // of a parameter or buffer, so the change persists
  bool of_batch = false;
  size_t first = 0;  // first node that uses it, whether it changes it or not
  size_t last = 0;
  size_t last_change = 0;
};

std::map<int64_t, Changed> changed_storages(const Graph& graph) {
  std::map<int64_t, Changed> found;
  for (const Node& node : graph.nodes) {
    for (const int changed : node.changes) found[graph.values[at(changed)].storage];
  }
  // Parameters change between passes, so a parameter or buffer that shares memory with a parameter must stay with it.
  std::set<int64_t> trained;
  std::map<int64_t, int> tensors;
  for (const Value& value : graph.values) {
    if (value.kind != Value::Kind::parameter && value.kind != Value::Kind::buffer) continue;
    if (value.kind == Value::Kind::parameter) trained.insert(value.storage);
    if (++tensors[value.storage] > 1 && trained.contains(value.storage)) found[value.storage];
  }
  for (auto& [storage, changed] : found) changed.of_module = tensors.contains(storage);
  std::set<int64_t> seen;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const auto touch = [&](int value) {
      const int64_t storage = value < 0 ? -1 : graph.values[at(value)].storage;
      const auto here = found.find(storage);
      if (value < 0 || here == found.end()) return;
      if (seen.insert(storage).second) here->second.first = i;
      here->second.last = i;
      here->second.of_batch = here->second.of_batch || node.of_batch;
    };
    std::ranges::for_each(node.inputs(), touch);
    std::ranges::for_each(node.outputs, touch);
    for (const int changed : node.changes) found[graph.values[at(changed)].storage].last_change = i;
  }
  return found;
}

}  // namespace

std::vector<std::vector<int>> units_of(const Graph& graph) {
  Ranges ranges(graph.nodes.size());
  const std::vector<int> producers = graph.producers();
  const std::set<int64_t> bound = storages_of_module(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const int input : graph.nodes[i].inputs()) {
      // Only rows cross a cut; other values computed from the batch stay with their users.
      const Value& value = graph.values[at(input)];
      if (value.of_batch && producers[at(input)] >= 0 && value.row_dimension() < 0) ranges.join(at(producers[at(input)]), i);
    }
  }
  std::map<int64_t, size_t> first_of_storage;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::vector<int> inputs = graph.nodes[i].inputs();
    for (const int input : inputs) first_of_storage.emplace(graph.values[at(input)].storage, i);
    for (const int output : graph.nodes[i].outputs) {
      if (output >= 0) first_of_storage.emplace(graph.values[at(output)].storage, i);
    }
    // A value that crosses a cut arrives without the memory around it.
    if (graph.nodes[i].of_batch && looks_past_views(graph.nodes[i])) ranges.join(first_of_storage.at(graph.values[at(inputs.front())].storage), i);
  }
  // Changed memory stays with the nodes that made or read it before. The module's own memory persists, so it also stays with later readers.
  for (const auto& [storage, changed] : changed_storages(graph)) {
    if (changed.of_batch || changed.of_module) ranges.join(changed.first, changed.of_module ? changed.last : changed.last_change);
  }
  std::vector<std::vector<int>> units;
  std::vector<int> waiting;  // changes of buffers, and guards, that depend on no input: they join the next unit
  for (size_t begin = 0; begin < graph.nodes.size();) {
    const size_t end = ranges.end(begin);
    bool computes = false;
    for (size_t i = begin; i < end; ++i) {
      const Node& node = graph.nodes[i];
      computes = computes || node.of_batch;
      const bool once = std::ranges::any_of(node.changes, [&](int value) { return bound.contains(graph.values[at(value)].storage); });
      if (node.of_batch || once || node.answer) waiting.push_back(static_cast<int>(i));
    }
    if (computes) units.push_back(std::exchange(waiting, {}));
    begin = end;
  }
  if (!units.empty()) units.back().insert(units.back().end(), waiting.begin(), waiting.end());
  return units;
}

std::vector<Piece> pieces_of(const Graph& graph, const std::vector<std::vector<int>>& groups) {
  const std::vector<int> producers = graph.producers();
  std::vector<int> group_of(graph.nodes.size(), -1);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const int node : groups[g]) group_of[at(node)] = static_cast<int>(g);
  }
  std::vector<std::set<int>> outputs(groups.size());
  const auto give = [&](int value) {
    const int producer = producers[at(value)];
    if (producer >= 0 && group_of[at(producer)] >= 0) outputs[at(group_of[at(producer)])].insert(value);
  };
  for (const int output : graph.outputs) {
    if (graph.values[at(output)].of_batch) give(output);
  }
  const std::set<int64_t> bound = storages_of_module(graph);
  std::map<int64_t, std::vector<int>> changes;  // by storage: nodes without batch data that write to it
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].of_batch) continue;
    for (const int changed : graph.nodes[i].changes) changes[graph.values[at(changed)].storage].push_back(static_cast<int>(i));
  }
  std::vector<Piece> pieces(groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    std::set<int> nodes(groups[g].begin(), groups[g].end());
    std::set<int> inputs;
    std::set<int> tensors;
    const auto take = [&](auto& self, int value) -> void {
      const Value& it = graph.values[at(value)];
      const int producer = producers[at(value)];
      if (it.of_batch) {
        if (producer >= 0 && group_of[at(producer)] == static_cast<int>(g)) return;
        inputs.insert(value);
        return give(value);
      }
      if (it.kind == Value::Kind::parameter || it.kind == Value::Kind::buffer) tensors.insert(value);
      // Values that depend on no input are recomputed where needed, with all changes to them.
      const auto add = [&](int node) {
        if (!nodes.insert(node).second) return;
        for (const int input : graph.nodes[at(node)].inputs()) self(self, input);
      };
      if (producer >= 0) add(producer);
      if (bound.contains(it.storage)) return;
      for (const int node : changes[it.storage]) add(node);
    };
    for (const int node : groups[g]) {
      for (const int input : graph.nodes[at(node)].inputs()) take(take, input);
    }
    pieces[g] = {{nodes.begin(), nodes.end()}, {inputs.begin(), inputs.end()}, {}, {tensors.begin(), tensors.end()}};
  }
  for (size_t g = 0; g < groups.size(); ++g) pieces[g].outputs.assign(outputs[g].begin(), outputs[g].end());
  return pieces;
}

std::vector<Piece> stages_of(const Graph& graph, const std::vector<std::vector<int>>& units, const std::vector<int>& stage_of, int stages_at_least) {
  TW_EXPECTS(stage_of.size() == units.size() && !units.empty(), stage_of.size(), " stages are assigned to ", units.size(),
             " units; expected one for each unit, and at least one unit");
  std::vector<std::vector<int>> groups(at(stages_at_least));
  std::vector<int> stage_of_node(graph.nodes.size(), 0);
  for (size_t u = 0; u < units.size(); ++u) {
    TW_EXPECTS(stage_of[u] >= 0, "unit ", u, " has no stage; expected a number of at least 0");
    if (at(stage_of[u]) >= groups.size()) groups.resize(at(stage_of[u]) + 1);
    for (const int node : units[u]) {
      groups[at(stage_of[u])].push_back(node);
      stage_of_node[at(node)] = stage_of[u];
    }
  }
  std::vector<Piece> stages = pieces_of(graph, groups);
  const std::vector<int> producers = graph.producers();
  std::vector<int> first(graph.values.size(), static_cast<int>(stages.size()));  // by value: first and last stage that uses it
  std::vector<int> last(graph.values.size(), -1);
  for (size_t s = 0; s < stages.size(); ++s) {
    for (const int input : stages[s].inputs) {
      first[at(input)] = std::min(first[at(input)], static_cast<int>(s));
      last[at(input)] = static_cast<int>(s);
    }
  }
  for (const int output : graph.outputs) last[at(output)] = static_cast<int>(stages.size()) - 1;
  for (Piece& stage : stages) stage.inputs = stage.outputs = {};
  for (size_t value = 0; value < graph.values.size(); ++value) {
    if (!graph.values[value].of_batch) continue;
    const int producer = producers[value];
    const int made = producer < 0 ? 0 : stage_of_node[at(producer)];
    TW_EXPECTS(made <= first[value], "stage ", first[value], " uses a value that the later stage ", made, " computes, by ",
               graph.nodes[at(producer)].op);
    for (int s = made; s < last[value]; ++s) {
      stages[at(s)].outputs.push_back(static_cast<int>(value));
      stages[at(s + 1)].inputs.push_back(static_cast<int>(value));
    }
  }
  stages.front().inputs = graph.inputs;
  stages.back().outputs = graph.outputs;
  return stages;
}

}  // namespace tw::graph
