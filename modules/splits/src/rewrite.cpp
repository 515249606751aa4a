// SPDX-License-Identifier: Apache-2.0
#include "rewrite.hpp"

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>

#include <tw/splits/split_graphs.hpp>

#include "forms.hpp"
#include "value_sizes.hpp"

namespace tw::splits {
namespace {

using graph::Graph;
using graph::Node;
using graph::Size;
using graph::Value;

const char* operator_of(Conversion::Kind kind) {
  switch (kind) {
    case Conversion::Kind::copy: return "torchweave::copy_to_ranks";
    case Conversion::Kind::reduce: return "torchweave::reduce_from_ranks";
    case Conversion::Kind::gather: return "torchweave::gather_from_ranks";
    case Conversion::Kind::scatter: return "torchweave::scatter_to_ranks";
    case Conversion::Kind::keep: return "torchweave::keep_on_first_rank";
  }
  return "";
}

class Writer {
 public:
  Writer(const ChoiceProblem& problem, const Choice& choice, int ranks)
      : whole_(problem.graph), problem_(problem), choice_(choice), ranks_(ranks), forms_(problem.graph, ranks, choice.stored) {}

  GraphOfParts write() && {
    add_leaves();
    for (size_t node = 0; node < whole_.nodes.size(); ++node) add_node(node);
    for (const int output : whole_.outputs) parts_.graph.outputs.push_back(obtain(output, Form()));
    parts_.graph.min_rows = whole_.min_rows;
    return std::move(parts_);
  }

 private:
  void add_leaves() {
    for (size_t v = 0; v < whole_.values.size(); ++v) {
      const Value& value = whole_.values[v];
      if (value.kind == Value::Kind::computed) continue;
      const auto stored = choice_.stored.find(value.name);
      const bool is_parameter = value.kind == Value::Kind::parameter && stored != choice_.stored.end();
      const Placement placement = is_parameter ? stored->second : Placement();
      places_[{static_cast<int>(v), {.placement = placement}}] = add_value(static_cast<int>(v), placement, storage_of_leaf(value));
    }
    for (const int input : whole_.inputs) parts_.graph.inputs.push_back(places_.at({input, Form()}));
    for (const auto& [value, tensor] : whole_.constants) parts_.graph.constants.emplace_back(places_.at({value, Form()}), tensor);
  }

  /// Leaves that share memory still do.
  int64_t storage_of_leaf(const Value& value) {
    if (value.storage < 0) return value.storage;
    const auto [found, is_new] = leaf_storages_.emplace(value.storage, storages_);
    if (is_new) ++storages_;
    return found->second;
  }

  int add_value(int of, const Placement& placement, int64_t storage) {
    Value value = whole_.values[at(of)];
    value.storage = storage;
    if (placement.is_split()) {
      Size& size = value.sizes[at(placement.dimension)];
      size = {.fixed = size.fixed / ranks_, .per_row = size.per_row / ranks_};
    }
    parts_.graph.values.push_back(std::move(value));
    return static_cast<int>(parts_.graph.values.size()) - 1;
  }

  void add_node(size_t index) {
    Node node = whole_.nodes[index];
    const int chosen = choice_.split_of_node[index];
    const OperatorSplit* const split = chosen < 0 ? nullptr : &problem_.splits[index][at(chosen)];
    if (split != nullptr) node.arguments = divided_arguments(node, split->divided_sizes, ranks_);
    std::map<int64_t, int64_t> storages{{-1, -1}};  // of the node's tensors here, by those in the whole graph
    size_t next = 0;
    const auto place = [&](graph::Ref& ref) {
      if (ref.value < 0) return;
      const int of_whole = ref.value;
      ref.value = obtain(of_whole, forms_.wanted(of_whole, split, next++));
      storages.emplace(whole_.values[at(of_whole)].storage, parts_.graph.values[at(ref.value)].storage);
    };
    for (graph::Argument& argument : node.arguments) {
      if (auto* ref = std::get_if<graph::Ref>(&argument)) place(*ref);
      if (auto* refs = std::get_if<std::vector<graph::Ref>>(&argument)) std::ranges::for_each(*refs, place);
    }
    for (int& changed : node.changes) changed = obtain(changed, Form());
    size_t output = 0;
    for (int& value : node.outputs) {
      if (value < 0) continue;
      const Placement placement = split == nullptr ? Placement() : split->outputs[output++];
      const int64_t storage = whole_.values[at(value)].storage;
      forms_.define(value, placement);
      const auto [here, is_new] = storages.emplace(storage, storages_);
      if (is_new) ++storages_;
      const int made = add_value(value, placement, here->second);
      places_[{value, {.placement = placement}}] = made;
      value = made;
    }
    parts_.graph.nodes.push_back(std::move(node));
  }

  /// The value here that is the value `whole` of the whole graph in a form. Adds the conversions that it needs.
  int obtain(int whole, const Form& wanted) {
    for (const Conversion& each : forms_.obtain(whole, wanted)) add_conversion(whole, each);
    return places_.at({whole, wanted});
  }

  /// Conversions that communicate work on contiguous tensors. A value with another order in memory is permuted before and afterwards, since later
  /// operators, such as view(), may depend on its order.
  void add_conversion(int whole, const Conversion& conversion) {
    const int from = places_.at({whole, conversion.from});
    const bool sends = conversion.kind != Conversion::Kind::copy && conversion.kind != Conversion::Kind::keep;
    const std::vector<int64_t> order = parts_.graph.values[at(from)].order;
    const bool permutes = sends && !std::ranges::is_sorted(order);
    std::vector<int64_t> back(order.size());
    for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    const Placement& divided = conversion.from.placement.is_split() ? conversion.from.placement : conversion.to.placement;
    const bool has_size = conversion.kind == Conversion::Kind::gather || conversion.kind == Conversion::Kind::scatter;
    const Size size = has_size ? whole_.values[at(whole)].sizes[at(divided.dimension)] : Size();
    const int64_t dimension = permutes ? back[static_cast<size_t>(divided.dimension)] : divided.dimension;
    const int contiguous = permutes ? add_permutation(from, order) : from;
    int to =
        add_value(whole, conversion.to.placement, conversion.kind == Conversion::Kind::copy ? parts_.graph.values[at(from)].storage : storages_++);
    name_as_computed(to);
    if (permutes) permute(parts_.graph.values[at(to)], order);
    parts_.graph.nodes.push_back({.op = operator_of(conversion.kind),
                                  .overload = "",
                                  .arguments = {graph::Ref{contiguous}, graph::Object{.name = ranks_name(ranks_)}, size, Size{.fixed = dimension},
                                                Size{.fixed = divided.groups}},
                                  .outputs = {to},
                                  .of_batch = parts_.graph.values[at(to)].of_batch});
    if (permutes) to = add_permutation(to, back);
    places_[{whole, conversion.to}] = to;
    const Value& value = whole_.values[at(whole)];
    const std::string name = value.name.empty() ? concat('%', whole) : value.name;
    parts_.communications.push_back({operator_of(conversion.kind), name, bytes_of(value, problem_.rows)});
  }

  void name_as_computed(int value) {
    parts_.graph.values[at(value)].kind = Value::Kind::computed;
    parts_.graph.values[at(value)].name.clear();
  }

  /// The sizes and the memory order of `value` as permute(dimensions) makes them.
  static void permute(Value& value, const std::vector<int64_t>& dimensions) {
    std::vector<Size> sizes;
    std::vector<int64_t> place(dimensions.size());  // of each former dimension
    for (size_t i = 0; i < dimensions.size(); ++i) {
      sizes.push_back(value.sizes[static_cast<size_t>(dimensions[i])]);
      place[static_cast<size_t>(dimensions[i])] = static_cast<int64_t>(i);
    }
    for (int64_t& each : value.order) each = place[static_cast<size_t>(each)];
    value.sizes = std::move(sizes);
  }

  int add_permutation(int from, const std::vector<int64_t>& dimensions) {
    Value value = parts_.graph.values[at(from)];
    permute(value, dimensions);
    parts_.graph.values.push_back(std::move(value));
    const auto to = static_cast<int>(parts_.graph.values.size()) - 1;
    name_as_computed(to);
    std::vector<Size> sizes;
    for (const int64_t each : dimensions) sizes.push_back({.fixed = each});
    parts_.graph.nodes.push_back({.op = "aten::permute",
                                  .overload = "",
                                  .arguments = {graph::Ref{from}, std::move(sizes)},
                                  .outputs = {to},
                                  .of_batch = parts_.graph.values[at(to)].of_batch});
    return to;
  }

  const Graph& whole_;
  const ChoiceProblem& problem_;
  const Choice& choice_;
  int ranks_;
  Forms forms_;
  GraphOfParts parts_;
  std::map<std::pair<int, Form>, int> places_;  // value here, by value in the whole graph and form
  std::map<int64_t, int64_t> leaf_storages_;
  int64_t storages_ = 0;  // number of storages here
};

}  // namespace

GraphOfParts graph_of_parts(const ChoiceProblem& problem, const Choice& choice, int ranks) { return Writer(problem, choice, ranks).write(); }

}  // namespace tw::splits
