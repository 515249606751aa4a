// SPDX-License-Identifier: Apache-2.0
#include "row_places.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/numbers.hpp>
#include <tw/graph/interpreter.hpp>
#include <tw/tensor/memory_order.hpp>

#include "random.hpp"

namespace tw::graph {
namespace {

/// Where rows may lie in a tensor of these sizes, the likeliest first.
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

/// What shows where the rows lie in what node `i` draws: itself, or what its shape is taken from.
int subject_of(const Graph& graph, const std::vector<int>& producers, size_t i) {
  const Node& node = graph.nodes[i];
  const auto* drawn = std::get_if<Ref>(&node.arguments.at(0));
  if (drawn == nullptr) return node.outputs[0];  // rand() and others that are given sizes
  int value = drawn->value;
  for (int producer = producers[at(value)]; producer >= 0; producer = producers[at(value)]) {
    const Node& maker = graph.nodes[at(producer)];
    if (!maker.op.ends_with("_like")) break;
    value = maker.inputs().at(0);
  }
  return value;
}

/// With no number in the first row.
std::vector<at::Tensor> poisoned(const std::vector<at::Tensor>& rows) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& each : rows) {
    result.push_back(each.clone());
    if (each.is_floating_point()) result.back().select(0, 0).fill_(std::numeric_limits<double>::quiet_NaN());
  }
  return result;
}

std::vector<int64_t> split_at(const at::Tensor& tensor, const RowPlace& place, int64_t rows) {
  std::vector<int64_t> split(tensor.sizes().begin(), tensor.sizes().begin() + place.dimension);
  split.insert(split.end(), {place.outer, rows, place.inner});
  split.insert(split.end(), tensor.sizes().begin() + place.dimension + 1, tensor.sizes().end());
  return split;
}

/// The only one of `places` where the first row lies in a tensor in which nothing else is no number. Tells rows apart that are equal by chance, as
/// behind a ReLU that gives nothing but zeros.
std::optional<RowPlace> poisoned_place(const std::vector<RowPlace>& places, const at::Tensor& tensor, int64_t rows) {
  std::optional<RowPlace> found;
  for (const RowPlace& place : places) {
    const at::Tensor by_row = tensor.isnan().reshape(split_at(tensor, place, rows)).movedim(place.dimension + 1, 0);
    if (rows < 2 || !by_row[0].all().item<bool>() || by_row.slice(0, 1).any().item<bool>()) continue;
    if (found) return std::nullopt;
    found = place;
  }
  return found;
}

/// By how much `rotated` differs, at most, from `tensor` with the rows at `place` one further.
double deviation(const at::Tensor& tensor, const at::Tensor& rotated, const RowPlace& place, int64_t rows) {
  const std::vector<int64_t> split = split_at(tensor, place, rows);
  const at::Tensor expected = tensor.reshape(split).roll(1, place.dimension + 1).to(at::kDouble);
  const at::Tensor found = rotated.reshape(split).to(at::kDouble);
  const at::Tensor is_same = expected.eq(found).logical_or(expected.isnan().logical_and(found.isnan()));
  return (expected - found).abs().masked_fill(is_same, 0).nan_to_num(infinity).max().item<double>();
}

/// Of a rounding error, at most; integers have none.
double epsilon_of(at::ScalarType type) {
  if (c10::isIntegralType(type, true)) return 0;
  if (type == at::kDouble) return 0x1p-52;
  return type == at::kFloat ? 0x1p-23 : 0x1p-8;
}

/// The only one of `places` where rows can lie, if the example shows it. Where rows see others, as in a batch norm, they are added up in another
/// order: what is right deviates by rounding errors, and what is wrong by more.
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

}  // namespace

std::vector<at::Tensor> rotated(const std::vector<at::Tensor>& rows) {
  std::vector<at::Tensor> turned;
  for (const at::Tensor& each : rows) turned.push_back(in_order(each.roll(1, 0), memory_order(each)));
  return turned;
}

void place_rows(Graph& graph, const std::vector<at::Tensor>& example, const std::vector<NamedTensor>& parameters,
                const std::vector<NamedTensor>& buffers) {
  const std::vector<int> producers = graph.producers();
  std::map<size_t, int> open;  // nodes with a choice, and what shows it
  std::vector<int> shown;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (!can_draw(node.op)) continue;
    const int subject = subject_of(graph, producers, i);
    const auto& sizes = graph.values[at(subject)].sizes;
    if (std::ranges::none_of(sizes, [](const Size& size) { return size.per_row != 0; })) continue;
    const std::vector<RowPlace> places = candidates(sizes);
    if (places.size() == 1) {
      node.rows = places.front();
      continue;
    }
    open.emplace(i, subject);
    if (std::ranges::find(shown, subject) == shown.end()) shown.push_back(subject);
  }
  if (open.empty()) return;
  std::vector<int> all(graph.nodes.size());
  std::iota(all.begin(), all.end(), 0);
  const auto pass = [&](const std::vector<at::Tensor>& inputs) {
    const c10::AutoGradMode no_gradients(false);
    std::map<std::string, at::Tensor> tensors;
    for (const NamedTensor& each : parameters) tensors[each.name] = each.tensor;
    for (const NamedTensor& each : buffers) tensors[each.name] = each.tensor.clone();  // a pass may change them
    const Interpreter interpreter(graph, all, graph.inputs, shown, [&](const std::string& name) { return tensors.at(name); });
    return interpreter.run(inputs, {.rows = inputs[0].size(0), .probe = true});
  };
  const std::vector<at::Tensor> as_given = pass(example);
  const std::vector<at::Tensor> turned = pass(rotated(example));
  for (const auto& [i, subject] : open) {
    const auto which = static_cast<size_t>(std::ranges::find(shown, subject) - shown.begin());
    const bool is_known = graph.values[at(subject)].of_batch;
    const std::vector<RowPlace> places = candidates(graph.values[at(subject)].sizes);
    const int64_t rows = example[0].size(0);
    std::optional<RowPlace> found = is_known ? only_place(places, as_given[which], turned[which], rows) : std::nullopt;
    if (is_known && !found) found = poisoned_place(places, pass(poisoned(example))[which], rows);
    if (!found) {
      throw Error(concat("operator ", i, ", ", graph.nodes[i].op, ": it draws random numbers for a tensor of shape ", as_given[which].sizes(),
                         ", in which the rows of the batch cannot be told from one another: is it an example of two rows or more that differ?"));
    }
    graph.nodes[i].rows = *found;
  }
}

}  // namespace tw::graph
