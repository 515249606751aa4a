// SPDX-License-Identifier: Apache-2.0
#include <tw/splits/operator_splits.hpp>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <set>
#include <tw/base/numbers.hpp>
#include <tw/graph/draws.hpp>

#include "experiment.hpp"
#include "value_sizes.hpp"

namespace tw::splits {
namespace {

using graph::Graph;
using graph::Node;

constexpr double most_bytes = 256 << 20;
constexpr size_t most_attempts = 1000;
constexpr size_t most_groups = 4;  // counts of groups for each size

/// Sizes of a value, without dimensions that contain rows.
std::vector<int64_t> fixed_sizes(const Graph& graph, int value) {
  std::vector<int64_t> sizes;
  for (const graph::Size& each : graph.values[at(value)].sizes) {
    if (each.per_row == 0) sizes.push_back(each.fixed);
  }
  return sizes;
}

/// The numbers of groups that two shapes suggest for sizes of `shape`: if consecutive dimensions of `other` multiply to n, the product of the first
/// of them; if n is cut into equal pieces, their number.
void suggest(const std::vector<int64_t>& shape, const std::vector<int64_t>& other, std::map<int64_t, std::set<int64_t>>& groups) {
  if (shape.size() == 1 && other.size() == 1 && other[0] > 1 && shape[0] > other[0] && shape[0] % other[0] == 0)
    groups[shape[0]].insert(shape[0] / other[0]);
  for (const int64_t n : shape) {
    for (size_t first = 0; first < other.size(); ++first) {
      int64_t product = 1;
      std::vector<int64_t> before;
      for (size_t i = first; i < other.size() && product < n; ++i) {
        if (product > 1) before.push_back(product);
        product *= other[i];
        if (product == n) groups[n].insert(before.begin(), before.end());
      }
    }
  }
}

/// Removes what both shapes begin and end with.
void remove_common(std::vector<int64_t>& a, std::vector<int64_t>& b) {
  for (int direction = 0; direction < 2; ++direction) {
    while (!a.empty() && !b.empty() && a.back() == b.back()) {
      a.pop_back();
      b.pop_back();
    }
    std::ranges::reverse(a);
    std::ranges::reverse(b);
  }
}

/// Candidate placements of an input, but for partial.
std::vector<Placement> placements_of(const Subject& subject, int value, const at::Tensor& tensor, int ranks, const GroupCounts& groups) {
  std::vector<Placement> found{Placement()};
  if (!tensor.is_floating_point()) return found;
  const std::vector<graph::Size>& sizes = subject.graph.values[at(value)].sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t size = sizes[d].of(subject.rows);
    if (sizes[d].per_row != 0) continue;
    if (can_divide(size, 1, ranks)) found.push_back(Placement::split(static_cast<int>(d)));
    const auto counts = groups.find(size);
    if (counts == groups.end()) continue;
    for (const int64_t count : counts->second) {
      if (can_divide(size, count, ranks)) found.push_back(Placement::split(static_cast<int>(d), count));
    }
  }
  return found;
}

/// Of inputs and outputs in float64.
double experiment_bytes(const Subject& subject) {
  double elements = 0;
  for (const at::Tensor& each : subject.inputs) elements += static_cast<double>(each.numel());
  for (const int output : subject.graph.nodes[at(subject.node)].outputs) {
    if (output >= 0) elements += static_cast<double>(c10::multiply_integers(sizes_of(subject.graph.values[at(output)], subject.rows)));
  }
  return 8 * elements;
}

bool are_alike(const at::Tensor& a, const at::Tensor& b) { return a.sizes().equals(b.sizes()) && a.scalar_type() == b.scalar_type(); }

/// By input, the first input whose placement it takes: inputs of equal shape in a list have the same placement. @param all not only in lists
std::vector<size_t> leaders(const Node& node, const std::vector<at::Tensor>& inputs, bool all) {
  std::vector<size_t> leader;
  const auto add = [&](size_t first) {
    const size_t here = leader.size();
    size_t same = first;
    while (same < here && !are_alike(inputs[same], inputs[here])) ++same;
    leader.push_back(same);
  };
  for (const graph::Argument& argument : node.arguments) {
    if (const auto* ref = std::get_if<graph::Ref>(&argument); ref != nullptr && ref->value >= 0) add(all ? 0 : leader.size());
    const auto* refs = std::get_if<std::vector<graph::Ref>>(&argument);
    if (refs == nullptr) continue;
    const size_t first = all ? 0 : leader.size();
    for (const graph::Ref& each : *refs) {
      if (each.value >= 0) add(first);
    }
  }
  return leader;
}

/// All combinations of one candidate for each input that is its own leader. Empty: too many.
std::vector<std::vector<Placement>> combinations(const std::vector<size_t>& leader, const std::vector<std::vector<Placement>>& candidates) {
  std::vector<std::vector<Placement>> all{{}};
  for (size_t i = 0; i < candidates.size(); ++i) {
    std::vector<std::vector<Placement>> longer;
    for (const std::vector<Placement>& some : all) {
      if (leader[i] != i) {
        longer.push_back(some);
        longer.back().push_back(some[leader[i]]);
        continue;
      }
      for (const Placement& each : candidates[i]) {
        longer.push_back(some);
        longer.back().push_back(each);
      }
    }
    if (longer.size() > most_attempts) return {};
    all = std::move(longer);
  }
  return all;
}

/// Whether the operator reads memory beyond its inputs if these have sizes that do not fit each other. An experiment could then end the program.
bool is_unchecked(const std::string& op) {
  static const std::vector<std::string> beginnings{
      "aten::lstm",           "aten::gru",     "aten::rnn_",    "aten::quantized_", "aten::embedding_bag",
      "aten::_embedding_bag", "aten::mkldnn_", "aten::fbgemm_", "aten::ctc_loss",   "aten::_ctc_loss"};
  return std::ranges::any_of(beginnings, [&](const std::string& each) { return op.starts_with(each); });
}

/// Whether the operator is marked as random, and its arguments do not exclude that.
bool is_random(const Node& node) {
  const auto op = c10::Dispatcher::singleton().findSchema({node.op, node.overload});
  if (!op) return false;
  std::vector<c10::IValue> arguments;
  for (const graph::Argument& each : node.arguments) {
    if (const auto* flag = std::get_if<bool>(&each)) {
      arguments.emplace_back(*flag);
    } else if (const auto* number = std::get_if<double>(&each)) {
      arguments.emplace_back(*number);
    } else {
      arguments.emplace_back();
    }
  }
  return graph::draws(*op, arguments);
}

}  // namespace

GroupCounts group_counts(const Graph& graph) {
  std::map<int64_t, std::set<int64_t>> found;
  for (const Node& node : graph.nodes) {
    const std::vector<int> inputs = node.inputs();
    if (inputs.size() != 1) continue;  // no view or slice
    for (const int output : node.outputs) {
      if (output < 0) continue;
      std::vector<int64_t> before = fixed_sizes(graph, inputs.front());
      std::vector<int64_t> after = fixed_sizes(graph, output);
      remove_common(before, after);
      if (std::ranges::is_permutation(before, after)) continue;
      suggest(before, after, found);
      suggest(after, before, found);
    }
  }
  GroupCounts counts;
  for (const auto& [size, groups] : found) {
    for (const int64_t each : groups) {
      if (counts[size].size() < most_groups) counts[size].push_back(each);
    }
  }
  return counts;
}

std::string reason_to_stay_whole(const Graph& graph, int index) {
  const Node& node = graph.nodes[at(index)];
  if (!node.changes.empty()) return "it changes a tensor in place";
  if (node.answer) return "the module reads a boolean from it";
  if (is_random(node)) return "it draws random numbers";
  if (is_unchecked(node.op)) return "LibTorch does not check the sizes of its inputs, so it is not tried";
  if (!node.op.starts_with("aten::")) return "it is not an operator of LibTorch, so it is not tried with other sizes and dtypes";
  if (node.op.starts_with("aten::as_strided") || node.op == "aten::_reshape_alias") return "it reads memory beyond its input";
  const auto has_object = [](const graph::Argument& each) { return std::holds_alternative<graph::Object>(each); };
  if (std::ranges::any_of(node.arguments, has_object)) return "it uses an object";
  std::set<int64_t> changed;  // storages
  for (const Node& each : graph.nodes) {
    for (const int value : each.changes) changed.insert(graph.values[at(value)].storage);
  }
  const auto is_changed = [&](int value) { return value >= 0 && changed.contains(graph.values[at(value)].storage); };
  if (std::ranges::any_of(node.inputs(), is_changed) || std::ranges::any_of(node.outputs, is_changed))
    return "an operator changes its input or output in place";
  const auto is_complex = [&](int value) { return value >= 0 && c10::isComplexType(graph.values[at(value)].dtype); };
  if (std::ranges::any_of(node.inputs(), is_complex) || std::ranges::any_of(node.outputs, is_complex)) return "it computes with complex numbers";
  return "";
}

OperatorSplits splits_of(const Subject& subject, int ranks, const GroupCounts& groups) {
  const Node& node = subject.graph.nodes[at(subject.node)];
  if (subject.inputs.empty()) return {.splits = {}, .reason = "it has no inputs"};
  if (experiment_bytes(subject) > most_bytes) return {.splits = {}, .reason = "its inputs and outputs are too large for experiments"};
  const Experiment experiment(subject, ranks);
  if (!experiment.is_conclusive()) return {.splits = {}, .reason = "experiments on random numbers show nothing"};
  const std::vector<int> values = node.inputs();
  std::vector<std::vector<Placement>> candidates;
  for (size_t i = 0; i < values.size(); ++i) {
    candidates.push_back(placements_of(subject, values[i], subject.inputs[i], ranks, groups));
    if (subject.inputs[i].is_floating_point() && experiment.is_affine_in(i)) candidates.back().push_back(Placement::partial());
  }
  // Queries, keys and values of attention are divided alike. Where there are few combinations, all are tried.
  std::vector<std::vector<Placement>> combined = combinations(leaders(node, subject.inputs, /*all=*/false), candidates);
  if (combined.size() * experiment.variants() > most_attempts) combined.clear();
  if (combined.empty()) combined = combinations(leaders(node, subject.inputs, /*all=*/true), candidates);
  if (combined.empty() || combined.size() * experiment.variants() > most_attempts)
    return {.splits = {}, .reason = "it has too many inputs and sizes to try"};
  OperatorSplits found;
  for (const std::vector<Placement>& inputs : combined) {
    if (std::ranges::all_of(inputs, &Placement::is_whole)) continue;
    for (size_t variant = 0; variant < experiment.variants(); ++variant) {
      std::optional<OperatorSplit> split = experiment.attempt(inputs, variant);
      if (!split) continue;
      found.splits.push_back(std::move(*split));
      break;
    }
  }
  if (found.splits.empty()) found.reason = "no experiment found a split";
  return found;
}

}  // namespace tw::splits
