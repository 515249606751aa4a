// SPDX-License-Identifier: Apache-2.0
#include "smaller_operator.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <tw/base/numbers.hpp>

#include "operator_run.hpp"
#include "value_sizes.hpp"

namespace tw::splits {
namespace {

using graph::Graph;
using graph::Size;

constexpr int64_t least_to_replace = 32;  // larger than any number of dimensions

/// Calls `visit` with all sizes of values and arguments that do not depend on the rows.
void visit_sizes(Graph& graph, const std::function<void(int64_t& size)>& visit) {
  const auto visit_fixed = [&](Size& size) {
    if (size.per_row == 0) visit(size.fixed);
  };
  for (graph::Value& value : graph.values) std::ranges::for_each(value.sizes, visit_fixed);
  for (graph::Argument& argument : graph.nodes.front().arguments) {
    if (auto* size = std::get_if<Size>(&argument)) visit_fixed(*size);
    if (auto* sizes = std::get_if<std::vector<Size>>(&argument)) std::ranges::for_each(*sizes, visit_fixed);
  }
}

/// Sizes of dimensions, the largest first.
std::set<int64_t, std::greater<>> sizes_of_values(const Graph& graph) {
  std::set<int64_t, std::greater<>> found;
  for (const graph::Value& value : graph.values) {
    for (const Size& size : value.sizes) {
      if (size.per_row == 0) found.insert(size.fixed);
    }
  }
  return found;
}

std::vector<int64_t> groups_that_divide(int64_t size, int ranks, const GroupCounts& groups) {
  std::vector<int64_t> found;
  const auto counts = groups.find(size);
  if (counts == groups.end()) return found;
  std::ranges::copy_if(counts->second, std::back_inserter(found), [&](int64_t count) { return can_divide(size, count, ranks); });
  return found;
}

/// A smaller size that can be divided as `size`, or cannot be divided either, and that the operator does not have yet; 0: none that is worthwhile.
int64_t replacement(int64_t size, const std::vector<int64_t>& counts, int ranks, const std::set<int64_t, std::greater<>>& taken) {
  int64_t unit = ranks;
  for (const int64_t count : counts) unit = std::lcm(unit, count * ranks);
  const int64_t rest = size % ranks == 0 ? 0 : 1;
  for (int64_t smaller = divide_up(8, unit) * unit + rest; smaller <= size / 2; smaller += unit) {
    if (!taken.contains(smaller)) return smaller;
  }
  return 0;
}

/// Whether the outputs have the sizes that the graph says. @throws what the operator throws
bool has_expected_sizes(const Graph& graph, const std::vector<at::Tensor>& inputs, int64_t rows) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> outputs = OperatorRun(graph, graph.nodes.front())(inputs, rows);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].sizes().equals(sizes_of(graph.values[at(graph.outputs[i])], rows))) return false;
  }
  return true;
}

/// The first elements, in every dimension of this size. Integers may be indices into one: they become smaller, too.
at::Tensor cut(at::Tensor tensor, const std::vector<Size>& sizes, int64_t size, int64_t smaller) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == Size{.fixed = size}) tensor = tensor.narrow(static_cast<int64_t>(d), 0, smaller);
  }
  const bool is_integer = !tensor.is_floating_point() && tensor.scalar_type() != at::kBool;
  return is_integer && tensor.numel() > 0 && tensor.max().item<int64_t>() >= smaller ? tensor.remainder(smaller) : tensor.contiguous();
}

/// Whether an argument is a large number that is no size, such as the begin of a slice: it would be at another place of a smaller tensor.
bool has_other_numbers(Graph& graph) {
  const std::set<int64_t, std::greater<>> sizes = sizes_of_values(graph);
  bool found = false;
  visit_sizes(graph, [&](int64_t& each) { found = found || (each >= least_to_replace && !sizes.contains(each)); });
  return found;
}

}  // namespace

SmallerOperator with_sizes(const Subject& subject, const GroupCounts& groups, const std::map<int64_t, int64_t>& replaced, int ranks) {
  SmallerOperator made{
      .graph = graph_of_node(subject.graph, subject.graph.nodes[at(subject.node)]), .inputs = subject.inputs, .groups = groups, .replaced = replaced};
  for (size_t i = 0; i < made.inputs.size(); ++i) {
    const std::vector<Size>& sizes = made.graph.values[at(made.graph.inputs[i])].sizes;
    for (const auto& [size, smaller] : replaced) made.inputs[i] = cut(made.inputs[i], sizes, size, smaller);
  }
  visit_sizes(made.graph, [&](int64_t& each) {
    const auto found = replaced.find(each);
    if (found != replaced.end()) each = found->second;
  });
  for (const auto& [size, smaller] : replaced) made.groups[smaller] = groups_that_divide(size, ranks, groups);
  return made;
}

std::optional<SmallerOperator> smaller_operator(const Subject& subject, int ranks, const GroupCounts& groups) {
  SmallerOperator made = with_sizes(subject, groups, {}, ranks);
  if (has_other_numbers(made.graph)) return std::nullopt;
  std::set<int64_t, std::greater<>> taken = sizes_of_values(made.graph);
  for (const int64_t size : std::set(taken)) {
    if (size < least_to_replace) break;
    const int64_t smaller = replacement(size, groups_that_divide(size, ranks, groups), ranks, taken);
    if (smaller == 0) continue;
    std::map<int64_t, int64_t> replaced = made.replaced;
    replaced[size] = smaller;
    try {
      SmallerOperator next = with_sizes(subject, groups, replaced, ranks);
      if (!has_expected_sizes(next.graph, next.inputs, subject.rows)) continue;
      made = std::move(next);
      taken.insert(smaller);
    } catch (const std::exception&) {  // not with this size
    }
  }
  return made.replaced.empty() ? std::nullopt : std::optional(std::move(made));
}

}  // namespace tw::splits
