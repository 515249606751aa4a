// SPDX-License-Identifier: Apache-2.0
#include "discovery.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <set>
#include <tw/base/hash.hpp>
#include <tw/base/number_text.hpp>
#include <tw/base/numbers.hpp>
#include <tw/graph/interpreter.hpp>
#include <tw/tensor/content_hash.hpp>
#include <tw/tensor/memory_order.hpp>

#include "operator_run.hpp"

namespace tw::splits {
namespace {

using graph::Graph;
using graph::Value;
using Bind = std::function<at::Tensor(const std::string& name)>;
using Tensors = std::vector<at::Tensor>;

/// A graph's tensors; copies of those that passes change.
class Unchanged {
 public:
  Unchanged(const Graph& graph, const Bind& bind) : bind_(bind) {
    std::set<int64_t> changed;  // storages
    for (const graph::Node& node : graph.nodes) {
      for (const int value : node.changes) changed.insert(graph.values[at(value)].storage);
    }
    for (const Value& each : graph.values) {
      if (each.name.empty() || (each.kind != Value::Kind::buffer && !changed.contains(each.storage))) continue;
      copies_[each.name] = bind(each.name).detach().clone();
    }
  }
  at::Tensor operator()(const std::string& name) const {
    const auto copy = copies_.find(name);
    return copy == copies_.end() ? bind_(name) : copy->second;
  }

 private:
  const Bind& bind_;
  std::map<std::string, at::Tensor> copies_;
};

/// The values that operators use as they are, such as indices, by value. Undefined: floating-point.
Tensors numbers_that_count(const Graph& graph, const Bind& bind, const Tensors& rows) {
  std::vector<int> wanted;
  for (const graph::Node& node : graph.nodes) {
    for (const int value : node.inputs()) {
      if (!c10::isFloatingType(graph.values[at(value)].dtype)) wanted.push_back(value);
    }
  }
  std::ranges::sort(wanted);
  wanted.erase(std::ranges::unique(wanted).begin(), wanted.end());
  Tensors found(graph.values.size());
  if (wanted.empty()) return found;
  std::vector<int> all(graph.nodes.size());
  std::iota(all.begin(), all.end(), 0);
  const at::NoGradGuard no_grad;
  const Unchanged tensors(graph, bind);
  const Tensors values = graph::Interpreter(graph, all, graph.inputs, wanted, tensors).run(rows, {.rows = rows.front().size(0)});
  for (size_t i = 0; i < wanted.size(); ++i) found[at(wanted[i])] = values[i].clone();
  return found;
}

at::Tensor like(const Value& value, int64_t rows) {
  std::vector<int64_t> sizes;
  for (const graph::Size& each : value.sizes) sizes.push_back(each.of(rows));
  return empty_in_order(sizes, value.dtype, value.order).fill_(1);
}

/// Splits of an equal operator, which uses other tensors.
std::vector<OperatorSplit> for_node(std::vector<OperatorSplit> splits, const graph::Node& node) {
  for (OperatorSplit& each : splits) {
    for (size_t i = 0; i < node.arguments.size(); ++i) {
      const graph::Argument& own = node.arguments[i];
      if (std::holds_alternative<graph::Ref>(own) || std::holds_alternative<std::vector<graph::Ref>>(own)) each.arguments[i] = own;
    }
  }
  return splits;
}

/// Seconds of an operator for `all_rows`, forward and backward: the least of three runs for `rows`, in proportion; 0 if it fails on such numbers.
/// @param subject its inputs are used if they have as many rows
double seconds_of(const Graph& graph, const graph::Node& node, const Subject& subject, int64_t rows, int64_t all_rows) try {
  const OperatorRun run(graph, node);
  Tensors inputs = subject.inputs;
  if (rows != subject.rows) {
    inputs.clear();
    for (const int value : node.inputs()) inputs.push_back(like(graph.values[at(value)], rows));
  }
  double least = infinity;
  for (int repetition = 0; repetition < 3; ++repetition) {
    Tensors leaves;
    for (const at::Tensor& each : inputs) leaves.push_back(each.is_floating_point() ? each.detach().requires_grad_() : each);
    const auto begin = std::chrono::steady_clock::now();
    for (const at::Tensor& each : run(leaves, rows)) {
      if (each.requires_grad()) each.backward(at::ones({}, each.options()).expand_as(each), /*retain_graph=*/true);
    }
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return least * static_cast<double>(all_rows) / static_cast<double>(rows);
} catch (const std::exception&) {
  return 0;
}

}  // namespace

Discovery::Found Discovery::operator()(const Graph& graph, const Bind& bind, const Tensors& example) {
  const int64_t all_rows = example.front().size(0);
  const int64_t rows = std::min(all_rows, std::max<int64_t>(2, graph.min_rows));
  Tensors few;
  for (const at::Tensor& each : example) few.push_back(each.narrow(0, 0, rows));
  const Tensors numbers = numbers_that_count(graph, bind, few);
  const GroupCounts groups = group_counts(graph);
  Found found;
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    found.splits.emplace_back();
    found.seconds.push_back(0);
    found.reasons.push_back(reason_to_stay_whole(graph, static_cast<int>(node)));
    if (!found.reasons.back().empty()) continue;
    Subject subject{.graph = graph, .node = static_cast<int>(node), .rows = rows};
    std::string key = graph::to_json(graph_of_node(graph, graph.nodes[node]));
    bool has_others = false;  // inputs of which only some rows are known
    for (const int value : graph.nodes[node].inputs()) {
      const at::Tensor& given = numbers[at(value)];
      if (given.defined()) key += hex_text(content_hash(given));
      has_others = has_others || given.defined();
      subject.inputs.push_back(given.defined() ? given : like(graph.values[at(value)], rows));
    }
    const auto [known, is_new] = known_.try_emplace(std::move(key));
    if (is_new) {
      known->second.found = splits_of(subject, ranks_, groups);
      if (is_timed_) known->second.seconds = seconds_of(graph, graph.nodes[node], subject, has_others ? rows : all_rows, all_rows);
    }
    found.splits.back() = for_node(known->second.found.splits, graph.nodes[node]);
    found.seconds.back() = known->second.seconds;
    found.reasons.back() = known->second.found.reason;
  }
  return found;
}

}  // namespace tw::splits
