// SPDX-License-Identifier: Apache-2.0
#include "forms.hpp"

#include <algorithm>
#include <set>
#include <tw/base/numbers.hpp>

namespace tw::splits {
namespace {

using graph::Graph;
using graph::Value;

bool is_differentiable(const Value& value) { return c10::isFloatingType(value.dtype) || c10::isComplexType(value.dtype); }

}  // namespace

// Follows memory, too: a change in place can bring a parameter into a tensor that was made without one. What runs without autograd counts as well, as
// an unneeded conversion costs little, and a missing one would make gradients wrong.
std::vector<bool> values_with_cotangent(const Graph& graph) {
  std::vector<bool> found;
  std::set<int64_t> storages;
  for (const Value& each : graph.values) found.push_back(each.kind == Value::Kind::parameter && is_differentiable(each));
  const auto is_found = [&](int value) { return found[at(value)] || storages.contains(graph.values[at(value)].storage); };
  for (bool grows = true; grows;) {
    grows = false;
    for (const graph::Node& node : graph.nodes) {
      if (!std::ranges::any_of(node.inputs(), is_found)) continue;
      for (const int output : node.outputs) {
        if (output < 0 || found[at(output)] || !is_differentiable(graph.values[at(output)])) continue;
        found[at(output)] = grows = true;
      }
      for (const int changed : node.changes) {
        const int64_t storage = graph.values[at(changed)].storage;
        if (storage >= 0) grows = storages.insert(storage).second || grows;
      }
    }
  }
  for (size_t v = 0; v < found.size(); ++v) found[v] = is_found(static_cast<int>(v)) && is_differentiable(graph.values[v]);
  return found;
}

Forms::Forms(const Graph& graph, int ranks, const std::map<std::string, Placement>& stored)
    : graph_(&graph), ranks_(ranks), stored_(&stored), has_cotangent_(std::make_shared<const std::vector<bool>>(values_with_cotangent(graph))) {}

const Form* Forms::first(int value) const {
  const auto found = forms_.find(value);
  return found == forms_.end() ? nullptr : &found->second.front();
}

void Forms::define(int value, const Placement& placement) { forms_[value] = {{.placement = placement}}; }

Form Forms::wanted(int value, const OperatorSplit* split, size_t i) const {
  if (split == nullptr) return {};
  return {.placement = split->inputs[i], .has_partial_cotangent = split->has_partial_cotangent[i] && (*has_cotangent_)[at(value)]};
}

Form Forms::stored_form(int value, const Form& wanted) const {
  const Value& leaf = graph_->values[at(value)];
  if (leaf.kind != Value::Kind::parameter) return {};
  if (const auto decided = stored_->find(leaf.name); decided != stored_->end()) return {.placement = decided->second};
  const Placement& placement = wanted.placement;
  // A part in several groups would be several boxes of a checkpoint.
  const bool fits = placement.is_split() && placement.groups == 1;
  return fits ? Form{.placement = placement} : Form();
}

std::vector<Conversion> Forms::obtain(int value, const Form& wanted) {
  const auto [found, is_new] = forms_.try_emplace(value);
  std::vector<Form>& have = found->second;
  if (is_new) have.push_back(stored_form(value, wanted));
  std::vector<Conversion> steps;
  const auto has = [&](const Form& form) { return std::ranges::find(have, form) != have.end(); };
  const auto add = [&](Conversion::Kind kind, const Form& from, const Form& to) {
    steps.push_back({kind, from, to});
    have.push_back(to);
  };
  if (has(wanted)) return steps;
  const Form whole;
  if (!has(whole)) add(have.front().placement.is_partial() ? Conversion::Kind::reduce : Conversion::Kind::gather, have.front(), whole);
  if (wanted.placement.is_split()) add(Conversion::Kind::scatter, whole, wanted);
  if (wanted.placement.is_partial()) add(Conversion::Kind::keep, whole, wanted);
  if (wanted.has_partial_cotangent) add(Conversion::Kind::copy, whole, wanted);
  std::ranges::sort(have.begin() + 1, have.end());  // states with the same forms compare equal
  return steps;
}

}  // namespace tw::splits
