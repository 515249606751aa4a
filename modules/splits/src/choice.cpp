// SPDX-License-Identifier: Apache-2.0
#include "choice.hpp"

#include <algorithm>
#include <set>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>

#include "forms.hpp"
#include "value_sizes.hpp"

namespace tw::splits {
namespace {

using graph::Graph;
using graph::Value;

constexpr size_t beam = 256;

class Prices {
 public:
  Prices(const ChoiceProblem& problem, const SplitOptions& options)
      : problem_(problem), options_(options), has_cotangent_(values_with_cotangent(problem.graph)) {}

  SplitCost of_conversion(int value, const Conversion& conversion) const {
    const bool has_backward = has_cotangent_[at(value)];
    const double bytes = bytes_of(value);
    // Ref: an all-reduce sends 2 (P - 1) / P of the bytes, an all-gather half of that.
    const double share = (options_.ranks - 1.0) / options_.ranks;
    if (!c10::isFloatingType(problem_.graph.values[at(value)].dtype)) return {infinity, infinity};  // the operators are for floating-point tensors
    switch (conversion.kind) {
      case Conversion::Kind::copy: return has_backward ? of_message(2 * share * bytes) : SplitCost();
      case Conversion::Kind::reduce: return of_message(2 * share * bytes);
      case Conversion::Kind::gather: return of_message(share * bytes);
      case Conversion::Kind::scatter: return has_backward ? of_message(share * bytes) : SplitCost();
      case Conversion::Kind::keep: return {};
    }
    return {};
  }
  SplitCost of_node(size_t node, const OperatorSplit* split) const {
    const auto is_split = [](const Placement& each) { return each.is_split(); };
    const bool divided = split != nullptr && (std::ranges::any_of(split->inputs, is_split) || std::ranges::any_of(split->outputs, is_split));
    const double seconds = problem_.seconds[node] / (divided ? options_.ranks : 1);
    return options_.goal == SplitGoal::fastest ? SplitCost{seconds, 0} : SplitCost();
  }
  /// Of a parameter on a rank.
  SplitCost of_storage(int value, const Form& form) const {
    const double bytes = bytes_of(value) / (form.placement.is_split() ? options_.ranks : 1);
    return options_.goal == SplitGoal::fastest ? SplitCost{0, bytes} : SplitCost{bytes, 0};
  }

 private:
  double bytes_of(int value) const { return splits::bytes_of(problem_.graph.values[at(value)], problem_.rows); }
  SplitCost of_message(double bytes) const {
    const double seconds = options_.latency_s + bytes / options_.bytes_per_second;
    return options_.goal == SplitGoal::fastest ? SplitCost{seconds, 0} : SplitCost{0, seconds};
  }

  const ChoiceProblem& problem_;
  const SplitOptions& options_;
  std::vector<bool> has_cotangent_;
};

std::vector<int> last_uses(const Graph& graph) {
  std::vector<int> last(graph.values.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const int value : graph.nodes[i].inputs()) last[at(value)] = static_cast<int>(i);
    for (const int value : graph.nodes[i].outputs) {
      if (value >= 0) last[at(value)] = std::max(last[at(value)], static_cast<int>(i));
    }
  }
  for (const int value : graph.outputs) last[at(value)] = static_cast<int>(graph.nodes.size());
  return last;
}

/// A choice for the first nodes.
struct State {
  Forms forms;
  SplitCost cost;
  int step = -1;  // the last one, in the history
};

struct Step {
  int before = -1;
  int split = -1;
};

class Search {
 public:
  Search(const ChoiceProblem& problem, const SplitOptions& options)
      : problem_(problem), options_(options), prices_(problem, options), last_use_(last_uses(problem.graph)) {}

  State start() const { return {Forms(problem_.graph, options_.ranks, problem_.stored), {}, -1}; }
  const OperatorSplit* split(size_t node, int index) const { return index < 0 ? nullptr : &problem_.splits[node][at(index)]; }

  /// Computes `node` by a split, and forgets what nothing uses afterwards.
  void advance(State& state, size_t node, int index) const {
    const graph::Node& of = problem_.graph.nodes[node];
    const OperatorSplit* const by = split(node, index);
    const std::vector<int> inputs = of.inputs();
    for (size_t i = 0; i < inputs.size(); ++i) obtain(state, inputs[i], state.forms.wanted(inputs[i], by, i));
    state.cost += prices_.of_node(node, by);
    size_t next = 0;
    for (const int output : of.outputs) {
      if (output >= 0) state.forms.define(output, by == nullptr ? Placement() : by->outputs[next++]);
    }
    for (const std::vector<int>& values : {inputs, of.outputs}) {
      for (const int value : values) {
        if (value >= 0 && last_use_[at(value)] == static_cast<int>(node)) state.forms.forget(value);
      }
    }
  }
  void finish(State& state) const {
    for (const int output : problem_.graph.outputs) obtain(state, output, Form());
  }

  Choice run() {
    std::vector<State> states{start()};
    for (size_t node = 0; node < problem_.graph.nodes.size(); ++node) {
      std::vector<State> longer;
      for (const State& state : states) {
        for (int index = -1; index < static_cast<int>(problem_.splits[node].size()); ++index) {
          State next = state;
          advance(next, node, index);
          if (next.cost.first == infinity) continue;
          history_.push_back({state.step, index});
          next.step = static_cast<int>(history_.size()) - 1;
          longer.push_back(std::move(next));
        }
      }
      states = best_of(std::move(longer));
    }
    TW_ASSERT(!states.empty());  // everything whole is a choice
    for (State& each : states) finish(each);
    const auto best = std::ranges::min_element(states, {}, &State::cost);
    Choice choice{.cost = best->cost};
    for (int step = best->step; step >= 0; step = history_[at(step)].before) choice.split_of_node.push_back(history_[at(step)].split);
    std::ranges::reverse(choice.split_of_node);
    choice.stored = stored_by(choice.split_of_node);
    return choice;
  }

  SplitCost cost_of(const std::vector<int>& split_of_node) const {
    State state = start();
    for (size_t node = 0; node < split_of_node.size(); ++node) advance(state, node, split_of_node[node]);
    finish(state);
    return state.cost;
  }

 private:
  void obtain(State& state, int value, const Form& wanted) const {
    const bool is_first = state.forms.first(value) == nullptr;
    for (const Conversion& each : state.forms.obtain(value, wanted)) state.cost += prices_.of_conversion(value, each);
    const bool is_parameter = problem_.graph.values[at(value)].kind == Value::Kind::parameter;
    if (is_first && is_parameter) state.cost += prices_.of_storage(value, *state.forms.first(value));
  }

  /// The cheapest of those with the same forms, and of these the cheapest `beam`.
  static std::vector<State> best_of(std::vector<State> states) {
    std::ranges::stable_sort(states, {}, &State::cost);
    std::vector<State> kept;
    std::set<const State*, bool (*)(const State*, const State*)> known([](const State* a, const State* b) { return a->forms < b->forms; });
    for (const State& each : states) {
      if (known.size() == beam) break;
      known.insert(&each);
    }
    for (const State& each : states) {
      const auto found = known.find(&each);
      if (found != known.end() && *found == &each) kept.push_back(each);
    }
    return kept;
  }

  std::map<std::string, Placement> stored_by(const std::vector<int>& split_of_node) const {
    Forms forms(problem_.graph, options_.ranks, problem_.stored);
    std::map<std::string, Placement> stored;
    for (size_t node = 0; node < split_of_node.size(); ++node) {
      const std::vector<int> inputs = problem_.graph.nodes[node].inputs();
      for (size_t i = 0; i < inputs.size(); ++i) {
        const Value& value = problem_.graph.values[at(inputs[i])];
        if (value.kind != Value::Kind::parameter) continue;
        forms.obtain(inputs[i], forms.wanted(inputs[i], split(node, split_of_node[node]), i));
        stored.emplace(value.name, forms.first(inputs[i])->placement);
      }
    }
    return stored;
  }

  const ChoiceProblem& problem_;
  const SplitOptions& options_;
  Prices prices_;
  std::vector<int> last_use_;
  std::vector<Step> history_;
};

}  // namespace

Choice choose(const ChoiceProblem& problem, const SplitOptions& options) {
  TW_EXPECTS(problem.splits.size() == problem.graph.nodes.size() && problem.seconds.size() == problem.graph.nodes.size(),
             "there must be splits and seconds for each of the ", problem.graph.nodes.size(), " operators");
  return Search(problem, options).run();
}

SplitCost cost_of(const ChoiceProblem& problem, const std::vector<int>& split_of_node, const SplitOptions& options) {
  return Search(problem, options).cost_of(split_of_node);
}

}  // namespace tw::splits
