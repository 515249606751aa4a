// SPDX-License-Identifier: Apache-2.0
#include "row_places.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/numbers.hpp>
#include <tw/graph/dry_run.hpp>
#include <tw/graph/interpreter.hpp>
#include <tw/tensor/memory_order.hpp>

#include "random.hpp"

namespace tw::graph {
namespace {

/// Possible places of rows in a tensor of these sizes, the likeliest first.
std::vector<RowPlace> candidates(const std::vector<Size>& sizes) {
  std::vector<RowPlace> found;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d].fixed != 0) continue;
    for (int64_t outer = 1; outer <= sizes[d].per_row; ++outer) {
      if (sizes[d].per_row % outer == 0) found.push_back({static_cast<int>(d), outer, sizes[d].per_row / outer});
    }
  }
  return found;
}

/// The value that shows where the rows lie in what node `i` draws: the drawn tensor, or the one whose shape it copies.
int subject_of(const Graph& graph, const std::vector<int>& producers, size_t i) {
  const Node& node = graph.nodes[i];
  const auto* drawn = std::get_if<Ref>(&node.arguments.at(0));
  if (drawn == nullptr) return node.outputs[0];  // rand() and others that take sizes
  int value = drawn->value;
  for (int producer = producers[at(value)]; producer >= 0; producer = producers[at(value)]) {
    const Node& maker = graph.nodes[at(producer)];
    if (!maker.op.ends_with("_like")) break;
    value = maker.inputs().at(0);
  }
  return value;
}

std::vector<int64_t> split_at(const at::Tensor& tensor, const RowPlace& place, int64_t rows) {
  std::vector<int64_t> split(tensor.sizes().begin(), tensor.sizes().begin() + place.dimension);
  split.insert(split.end(), {place.outer, rows, place.inner});
  split.insert(split.end(), tensor.sizes().begin() + place.dimension + 1, tensor.sizes().end());
  return split;
}

/// Largest deviation of `rotated` from `tensor` with the rows at `place` rotated by one.
double deviation(const at::Tensor& tensor, const at::Tensor& rotated, const RowPlace& place, int64_t rows) {
  const std::vector<int64_t> split = split_at(tensor, place, rows);
  const at::Tensor expected = tensor.reshape(split).roll(1, place.dimension + 1).to(at::kDouble);
  const at::Tensor found = rotated.reshape(split).to(at::kDouble);
  const at::Tensor is_same = expected.eq(found).logical_or(expected.isnan().logical_and(found.isnan()));
  return (expected - found).abs().masked_fill(is_same, 0).nan_to_num(infinity).max().item<double>();
}

/// Relative rounding error; integers have none.
double epsilon_of(at::ScalarType type) {
  if (c10::isIntegralType(type, true)) return 0;
  if (type == at::kDouble) return 0x1p-52;
  return type == at::kFloat ? 0x1p-23 : 0x1p-8;
}

/// The only one of `places` that fits, if the example is conclusive. If rows affect each other, as in a batch norm, they are summed in a different
/// order: the right place deviates by rounding errors, a wrong one by more.
std::optional<RowPlace> only_place(const std::vector<RowPlace>& places, const at::Tensor& tensor, const at::Tensor& rotated, int64_t rows) {
  if (tensor.numel() == 0 || places.empty()) return std::nullopt;
  const double largest = tensor.to(at::kDouble).nan_to_num(0, 0, 0).abs().max().item<double>();
  const double epsilon = epsilon_of(tensor.scalar_type());
  std::vector<double> deviations;
  for (const RowPlace& place : places) deviations.push_back(deviation(tensor, rotated, place, rows));
  const auto best = std::ranges::min_element(deviations);
  const bool is_clear = std::ranges::count_if(deviations, [&](double other) { return other <= 10 * *best + 4 * epsilon * largest; }) == 1;
  if (*best > 1e-3 * largest || !is_clear) return std::nullopt;
  return places[static_cast<size_t>(best - deviations.begin())];
}

/// A node that draws for a tensor whose sizes are ambiguous, and the value that shows where its rows lie.
struct Choice {
  size_t node;
  int subject;
};

/// Settles the nodes whose sizes are unambiguous. @return the others
std::vector<Choice> settle_by_sizes(Graph& graph) {
  const std::vector<int> producers = graph.producers();
  std::vector<Choice> open;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (!can_draw(node.op) || !draws(node)) continue;
    const int subject = subject_of(graph, producers, i);
    const std::vector<Size>& sizes = graph.values[at(subject)].sizes;
    if (std::ranges::none_of(sizes, [](const Size& size) { return size.per_row != 0; })) continue;
    const std::vector<RowPlace> places = candidates(sizes);
    if (places.size() == 1) {
      node.rows = places.front();
    } else {
      open.push_back({i, subject});
    }
  }
  return open;
}

/// A batch and weights to run a graph on.
struct Trial {
  std::vector<at::Tensor> rows;
  std::vector<NamedTensor> parameters;
};

/// Replaces its numbers by normally distributed ones. Integers stay, since they may be indices.
Trial redrawn(Trial trial, double scale, at::Generator& numbers) {
  const auto redraw = [&](at::Tensor& tensor) {
    if (tensor.is_floating_point()) tensor = at::empty_like(tensor).copy_(scale * at::randn(tensor.sizes(), numbers, at::kDouble));
  };
  std::ranges::for_each(trial.rows, redraw);
  for (NamedTensor& each : trial.parameters) redraw(each.tensor);
  return trial;
}

/// Settles those of `open` for which `trial` is conclusive: the place that moves when the rows are rotated. @return the others
std::vector<Choice> settle_by_trial(Graph& graph, const std::vector<Choice>& open, const Trial& trial, const std::vector<NamedTensor>& buffers) {
  const c10::AutoGradMode no_gradients(false);
  const DryRun dry;
  std::vector<int> shown;
  for (const Choice& each : open) shown.push_back(each.subject);
  std::ranges::sort(shown);
  shown.erase(std::ranges::unique(shown).begin(), shown.end());
  std::vector<int> all(graph.nodes.size());
  std::iota(all.begin(), all.end(), 0);
  const int64_t rows = trial.rows[0].size(0);
  const auto pass = [&](const std::vector<at::Tensor>& inputs) {
    std::map<std::string, at::Tensor> tensors;
    for (const NamedTensor& each : trial.parameters) tensors[each.name] = each.tensor;
    for (const NamedTensor& each : buffers) tensors[each.name] = each.tensor.clone();  // a pass may change them
    return Interpreter(graph, all, graph.inputs, shown, [&](const std::string& name) { return tensors.at(name); })
        .run(inputs, {.rows = rows, .probe = true});
  };
  const std::vector<at::Tensor> as_given = pass(trial.rows);
  const std::vector<at::Tensor> turned = pass(rotated(trial.rows));
  std::vector<Choice> left;
  for (const Choice& each : open) {
    const auto which = static_cast<size_t>(std::ranges::find(shown, each.subject) - shown.begin());
    const Value& value = graph.values[at(each.subject)];
    const auto place = value.of_batch ? only_place(candidates(value.sizes), as_given[which], turned[which], rows) : std::nullopt;
    if (place) graph.nodes[each.node].rows = place;
    if (!place) left.push_back(each);
  }
  return left;
}

}  // namespace

std::vector<at::Tensor> rotated(const std::vector<at::Tensor>& rows) {
  std::vector<at::Tensor> turned;
  for (const at::Tensor& each : rows) turned.push_back(in_order(each.roll(1, 0), memory_order(each)));
  return turned;
}

void place_rows(Graph& graph, const std::vector<at::Tensor>& example, const std::vector<NamedTensor>& parameters,
                const std::vector<NamedTensor>& buffers, bool has_values) {
  const Trial as_given{example, parameters};
  std::vector<Choice> open = settle_by_sizes(graph);
  if (!open.empty() && has_values) open = settle_by_trial(graph, open, as_given, buffers);
  // With the original numbers a ReLU may return only zeros; other numbers, larger each time, get through.
  at::Generator numbers = at::make_generator<at::CPUGeneratorImpl>(0);
  for (double scale = 1; !open.empty() && has_values && scale < 1e6; scale *= 4) {
    open = settle_by_trial(graph, open, redrawn(as_given, scale, numbers), buffers);
  }
  if (open.empty()) return;
  const auto& [node, subject] = open.front();
  std::vector<int64_t> shape;
  for (const Size& size : graph.values[at(subject)].sizes) shape.push_back(size.of(example[0].size(0)));
  throw Error(concat("operator ", node, ", ", graph.nodes[node].op, ": it draws random numbers for a tensor of shape ", at::IntArrayRef(shape),
                     ", in which the rows of the batch cannot be distinguished",
                     has_values ? ": check that the example has two rows or more" : " without values: capture the module with memory"));
}

}  // namespace tw::graph
