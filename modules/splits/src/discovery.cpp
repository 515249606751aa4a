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
#include <tw/splits/split_graphs.hpp>
#include <tw/tensor/content_hash.hpp>
#include <tw/tensor/memory_order.hpp>

#include "experiment.hpp"
#include "operator_run.hpp"
#include "smaller_operator.hpp"
#include "value_sizes.hpp"

namespace tw::splits {
namespace {

using graph::Graph;
using graph::Value;
using Bind = std::function<at::Tensor(const std::string& name)>;
using Tensors = std::vector<at::Tensor>;

constexpr double enough_s = 0.03;  // longer runs are measured once

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

/// The values that operators may use as indices or flags, by value. Undefined: floating-point.
Tensors integers_of(const Graph& graph, const Bind& bind, const Tensors& rows) {
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
  const Tensors values = graph::Interpreter(graph, all, graph.inputs, wanted, tensors).run(rows, {.rows = rows.front().size(0), .probe = true});
  for (size_t i = 0; i < wanted.size(); ++i) found[at(wanted[i])] = values[i].clone();
  return found;
}

at::Tensor like(const Value& value, int64_t rows) { return empty_in_order(sizes_of(value, rows), value.dtype, value.order).fill_(1); }

/// @param found with `integers` and `rows`
Subject subject_of(const Graph& graph, int node, const Discovery::Found& found) {
  Subject subject{.graph = graph, .node = node, .rows = found.rows};
  for (const int value : graph.nodes[at(node)].inputs()) {
    const at::Tensor& given = found.integers[at(value)];
    subject.inputs.push_back(given.defined() ? given : like(graph.values[at(value)], found.rows));
  }
  return subject;
}

/// Equal for operators that have the same splits.
std::string key_of(const Subject& subject, const Tensors& integers) {
  const graph::Node& node = subject.graph.nodes[at(subject.node)];
  std::string key = graph::to_json(graph_of_node(subject.graph, node));
  for (const int value : node.inputs()) {
    if (integers[at(value)].defined()) key += hex_text(content_hash(integers[at(value)]));
  }
  return key;
}

/// Seconds of an operator for `all_rows`, forward and backward: the least of up to three runs for `rows`, in proportion; 0 if it fails on such
/// numbers.
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
    if (least > enough_s) break;
  }
  return least * static_cast<double>(all_rows) / static_cast<double>(rows);
} catch (const std::exception&) {
  return 0;
}

}  // namespace

Discovery::Found Discovery::operator()(const Graph& graph, const Bind& bind, const Tensors& example) {
  const int64_t all_rows = example.front().size(0);
  Found found{.rows = std::max<int64_t>(2, graph.min_rows)};
  found.integers = integers_of(graph, bind, first_rows(example, found.rows));
  const GroupCounts groups = group_counts(graph);
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    found.splits.emplace_back();
    found.seconds.push_back(0);
    found.keys.emplace_back();
    found.reasons.push_back(reason_to_stay_whole(graph, static_cast<int>(node)));
    if (!found.reasons.back().empty()) continue;
    const Subject subject = subject_of(graph, static_cast<int>(node), found);
    found.keys.back() = key_of(subject, found.integers);
    const auto [place, is_new] = known_.try_emplace(found.keys.back());
    Known& known = place->second;
    if (is_new) {
      const std::vector<int> inputs = graph.nodes[node].inputs();
      const bool has_few = std::ranges::any_of(inputs, [&](int value) { return found.integers[at(value)].defined(); });  // only these rows are known
      known = tried(subject, groups);
      if (is_timed_ && !known.found.splits.empty())
        known.seconds = seconds_of(graph, graph.nodes[node], subject, has_few ? found.rows : all_rows, all_rows);
    }
    found.splits.back() = known.found.splits;
    found.seconds.back() = known.seconds;
    found.reasons.back() = known.found.reason;
  }
  return found;
}

Discovery::Known Discovery::tried(const Subject& subject, const GroupCounts& groups) const {
  const std::optional<SmallerOperator> smaller = smaller_operator(subject, ranks_, groups);
  if (!smaller) return {.found = splits_of(subject, ranks_, groups)};
  Known known{.found = splits_of(smaller->subject(subject.rows), ranks_, smaller->groups)};
  for (size_t i = 0; i < known.found.splits.size(); ++i) known.unconfirmed[i] = smaller->replaced;
  return known;
}

bool Discovery::holds(const OperatorSplit& split, const Subject& subject, const std::map<int64_t, int64_t>& replaced) const {
  return std::ranges::all_of(replaced, [&](const auto& own) {
    std::map<int64_t, int64_t> others = replaced;
    others.erase(own.first);
    const SmallerOperator with_own = with_sizes(subject, {}, others, ranks_);
    return Experiment(with_own.subject(subject.rows), ranks_, /*most_kinds=*/1).confirms(split);
  });
}

bool Discovery::confirm(const Graph& graph, const Found& found, const std::vector<int>& chosen) {
  bool all_hold = true;
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    if (chosen[node] < 0) continue;
    Known& known = known_.at(found.keys[node]);
    const auto unconfirmed = known.unconfirmed.extract(at(chosen[node]));
    if (unconfirmed.empty()) continue;
    const Subject subject = subject_of(graph, static_cast<int>(node), found);
    if (holds(found.splits[node][at(chosen[node])], subject, unconfirmed.mapped())) continue;
    all_hold = false;
    known.found = splits_of(subject, ranks_, group_counts(graph));
    known.unconfirmed.clear();
  }
  return all_hold;
}

}  // namespace tw::splits
