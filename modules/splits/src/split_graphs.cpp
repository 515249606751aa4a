// SPDX-License-Identifier: Apache-2.0
#include <tw/splits/split_graphs.hpp>

#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <set>
#include <tw/autograd/autocast.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/graph/dry_run.hpp>
#include <tw/tensor/memory_order.hpp>

#include "discovery.hpp"
#include "functional.hpp"
#include "rewrite.hpp"

namespace tw::splits {
namespace {

using graph::Graph;

/// How an operator was computed, such as "aten::linear(whole, split(0), split(0)) -> split(2)".
std::string text_of(const graph::Node& node, const OperatorSplit& split) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < split.inputs.size(); ++i) inputs.push_back(to_text(split.inputs[i]));
  return concat(node.op, '(', joined(inputs), ") -> ", joined(split.outputs, ", ", [](const Placement& each) { return to_text(each); }));
}

/// Counts equal lines.
std::string counted(const std::vector<std::string>& lines) {
  std::vector<std::pair<std::string, int>> counts;
  for (const std::string& line : lines) {
    const auto known = std::ranges::find(counts, line, &std::pair<std::string, int>::first);
    known == counts.end() ? (void)counts.emplace_back(line, 1) : (void)++known->second;
  }
  std::string text;
  for (const auto& [line, count] : counts) text += concat("  ", count, " x ", line, '\n');
  return text;
}

std::string explain(const Graph& graph, const Discovery::Found& found, const Choice& choice, const GraphOfParts& parts, int ranks) {
  std::vector<std::string> divided;
  std::vector<std::string> whole;
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    const int chosen = choice.split_of_node[node];
    if (chosen >= 0) {
      divided.push_back(text_of(graph.nodes[node], found.splits[node][at(chosen)]));
    } else if (graph.nodes[node].of_batch) {
      const std::string& reason = found.reasons[node];
      whole.push_back(concat(graph.nodes[node].op, ": ", reason.empty() ? "other splits cost less" : reason));
    }
  }
  std::vector<std::string> sent;
  for (const Communication& each : parts.communications) sent.push_back(concat(each.op, " of ", each.bytes, " bytes"));
  return concat("operators over ", ranks, " ranks: ", divided.size(), " of ", graph.nodes.size(), " divided\n", counted(divided),
                "between operators\n", counted(sent), "whole on every rank\n", counted(whole));
}

/// Parameters that stay whole on every rank: passes change them in place, or another tensor shares their memory.
std::map<std::string, Placement> whole_parameters(const graph::ModeGraphs& graphs) {
  std::map<std::string, Placement> found;
  for (const Graph* const graph : {&graphs.training, &graphs.evaluation}) {
    std::map<int64_t, int> users;  // by storage: leaves and changes
    for (const graph::Value& each : graph->values) {
      if (each.kind != graph::Value::Kind::computed) ++users[each.storage];
    }
    for (const graph::Node& node : graph->nodes) {
      for (const int value : node.changes) users[graph->values[at(value)].storage] += 2;
    }
    for (const graph::Value& each : graph->values) {
      if (each.kind == graph::Value::Kind::parameter && users[each.storage] > 1) found[each.name] = Placement();
    }
  }
  return found;
}

}  // namespace

std::vector<at::Tensor> first_rows(const std::vector<at::Tensor>& batch, int64_t rows) {
  std::vector<at::Tensor> made;
  for (const at::Tensor& each : batch) {
    TW_EXPECTS(each.size(0) > 0, "the batch must have rows");
    const at::Tensor some = each.narrow(0, 0, std::min(rows, each.size(0)));
    const at::Tensor enough = at::cat(std::vector<at::Tensor>(at(divide_up(rows, some.size(0))), some)).narrow(0, 0, rows);
    made.push_back(empty_in_order(enough.sizes(), enough.options(), memory_order(each)).copy_(enough));
  }
  return made;
}

std::string ranks_name(int ranks) { return concat("ranks[", ranks, ']'); }

SplitGraphs split_graphs(const graph::ModeGraphs& whole, const std::function<at::Tensor(const std::string& name)>& bind,
                         const std::vector<at::Tensor>& example, const SplitOptions& options) {
  TW_EXPECTS(options.ranks >= 1, "operators cannot be divided over ", options.ranks, " ranks");
  TW_EXPECTS(!example.empty() && example.front().dim() > 0 && example.front().size(0) > 0, "the example must have rows");
  Discovery discover(options.ranks, options.goal == SplitGoal::fastest);
  const graph::DryRun dry;
  const c10::AutoGradMode with_gradients(true);  // whatever the caller has set
  const AutocastScope plain(AutocastState::here().off());
  SplitGraphs made;
  std::map<std::string, Placement> stored = whole_parameters(whole);
  for (const std::string& name : options.whole) stored[name] = Placement();
  for (const Graph* const each : {&whole.training, &whole.evaluation}) {
    const Graph graph = functional(*each);
    Discovery::Found found = discover(graph, bind, example);
    ChoiceProblem problem{.graph = graph, .splits = found.splits, .seconds = found.seconds, .rows = example.front().size(0), .stored = stored};
    Choice choice = choose(problem, options);
    while (!discover.confirm(graph, found, choice.split_of_node)) {
      found = discover(graph, bind, example);
      problem.splits = found.splits;
      choice = choose(problem, options);
    }
    GraphOfParts parts = graph_of_parts(problem, choice, options.ranks);
    if (each == &whole.training) made.explanation = explain(graph, found, choice, parts, options.ranks);
    stored.insert(choice.stored.begin(), choice.stored.end());
    (each == &whole.training ? made.graphs.training : made.graphs.evaluation) = std::move(parts.graph);
  }
  for (const auto& [name, placement] : stored) {
    if (placement.is_split()) made.slices[name] = placement.dimension;
  }
  return made;
}

}  // namespace tw::splits
