// SPDX-License-Identifier: Apache-2.0
#include "row_places.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/allclose.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>
#include <numeric>
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

/// Rows of `rotated` lie one further than those of `tensor`.
bool goes_along(const at::Tensor& tensor, const at::Tensor& rotated, const RowPlace& place, int64_t rows) {
  std::vector<int64_t> split(tensor.sizes().begin(), tensor.sizes().begin() + place.dimension);
  split.insert(split.end(), {place.outer, rows, place.inner});
  split.insert(split.end(), tensor.sizes().begin() + place.dimension + 1, tensor.sizes().end());
  const auto one_further = [&](const at::Tensor& of) { return of.reshape(split).roll(1, place.dimension + 1).to(at::kDouble); };
  // Other rows are added up in another order where a row sees others, as in a batch norm: rounding errors, of whatever dtype.
  const double largest = tensor.numel() == 0 ? 0 : tensor.to(at::kDouble).nan_to_num(0, 0, 0).abs().max().item<double>();
  return at::allclose(one_further(tensor), rotated.reshape(split).to(at::kDouble), 1e-3, 1e-3 * largest, true);
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
    return interpreter.run(inputs, {.rows = inputs[0].size(0), .middle = true});
  };
  const std::vector<at::Tensor> as_given = pass(example);
  const std::vector<at::Tensor> turned = pass(rotated(example));
  for (const auto& [i, subject] : open) {
    const auto which = static_cast<size_t>(std::ranges::find(shown, subject) - shown.begin());
    const bool is_known = graph.values[at(subject)].of_batch;
    const std::vector<RowPlace> places = candidates(graph.values[at(subject)].sizes);
    const auto fits = [&](const RowPlace& place) { return is_known && goes_along(as_given[which], turned[which], place, example[0].size(0)); };
    const auto found = std::ranges::find_if(places, fits);
    if (found == places.end() || std::ranges::any_of(found + 1, places.end(), fits)) {
      throw Error(concat("operator ", i, ", ", graph.nodes[i].op, ": it draws random numbers for a tensor of shape ", as_given[which].sizes(),
                         ", in which the rows of the batch cannot be told from one another: is it an example of two rows or more that differ?"));
    }
    graph.nodes[i].rows = *found;
  }
}

}  // namespace tw::graph
