// SPDX-License-Identifier: Apache-2.0
#include "step_program.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <optional>
#include <tw/base/concat.hpp>
#include <tw/base/numbers.hpp>
#include <tw/parallel_in_time/states.hpp>

namespace tw::layer_parallel {
namespace {

/// Initial flags of the values: inputs and parameters are stacked, and depend on states or parameters.
std::vector<Value> values_of(const graph::Graph& graph, size_t states) {
  using Kind = graph::Value::Kind;
  std::vector<Value> values;
  for (const graph::Value& value : graph.values) {
    const bool of_state = value.kind == Kind::input && values.size() < states;
    const bool of_parameters = value.kind == Kind::parameter;
    Value& added = values.emplace_back(Value{.stacked = of_state || of_parameters, .of_state = of_state, .of_parameters = of_parameters});
    for (const graph::Size& size : value.sizes) added.sizes.push_back(size.fixed);
  }
  return values;
}

/// Number of uses, by value.
std::vector<size_t> uses_in(const graph::Graph& graph) {
  std::vector<size_t> uses(graph.values.size(), 0);
  for (const int output : graph.outputs) ++uses[at(output)];
  for (const graph::Node& node : graph.nodes) {
    for (const int input : node.inputs()) ++uses[at(input)];
  }
  return uses;
}

/// Whether all tensors except scalars have one floating-point type.
bool have_one_dtype(const graph::Graph& graph) {
  std::optional<at::ScalarType> dtype;
  return std::ranges::all_of(graph.values, [&](const graph::Value& value) {
    if (value.sizes.empty()) return true;
    if (!dtype) dtype = value.dtype;
    return value.dtype == *dtype && at::isFloatingType(*dtype);
  });
}

}  // namespace

std::unique_ptr<StepProgram> StepProgram::compile(const graph::Graph& graph, size_t states, size_t extras, std::string& problem) {
  std::unique_ptr<StepProgram> program(new StepProgram());
  program->states_ = states;
  program->extras_ = extras;
  program->values_ = values_of(graph, states);
  std::vector<Value>& values = program->values_;
  for (const auto& [value, tensor] : graph.constants) program->constants_.emplace_back(at(value), tensor);
  const std::vector<size_t> uses = uses_in(graph);
  std::vector<bool> fresh(values.size(), false);  // by value: in memory that an operation of the program allocated
  for (const graph::Node& node : graph.nodes) {
    Operation op{.rule = rule_of(node.op)};
    for (const graph::Argument& argument : node.arguments) {
      const auto* ref = std::get_if<graph::Ref>(&argument);
      if (ref != nullptr && ref->value >= 0) {
        op.inputs.push_back(at(ref->value));
      } else {
        op.constants.push_back(argument);
      }
    }
    // An in-place operation may only change a tensor that no other operation reads.
    const bool is_private = std::ranges::all_of(node.changes, [&](int changed) { return fresh[at(changed)] && uses[at(changed)] == 1; });
    if (node.outputs.size() == 1) op.output = at(node.outputs[0]);
    if (op.rule == nullptr || node.outputs.size() != 1 || !is_private || (op.rule->holds != nullptr && !op.rule->holds(op, values))) {
      problem = concat("there is no rule for ", node.op, " with these arguments");
      return nullptr;
    }
    Value& result = values[op.output];
    for (const size_t input : op.inputs) {
      result.stacked |= values[input].stacked;
      result.of_state |= values[input].of_state;
      result.of_parameters |= values[input].of_parameters;
      values[input].kept |= op.rule->keeps_inputs;
    }
    result.kept |= op.rule->keeps_output;
    fresh[op.output] = op.rule->name != "t";
    program->operations_.push_back(std::move(op));
  }
  if (!have_one_dtype(graph)) {
    problem = "the layers use tensors of several dtypes, or of integers";
    return nullptr;
  }
  for (const int output : graph.outputs) {
    if (!values[at(output)].stacked) {
      problem = "a part of the next state is the same for all layers";
      return nullptr;
    }
    program->outputs_.push_back(at(output));
  }
  for (Operation& op : program->operations_) {
    const size_t input = op.inputs[0];
    op.in_place = op.inputs.size() == 1 && uses[input] == 1 && fresh[input] && !values[input].kept;
  }
  return program;
}

State StepProgram::run(const State& states, const State& extras, const std::vector<at::Tensor>& parameters, Kept* kept) const {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  std::vector<at::Tensor> tensors;
  tensors.reserve(values_.size());
  for (const auto* part : {&states, &extras, &parameters}) tensors.insert(tensors.end(), part->begin(), part->end());
  tensors.resize(values_.size());
  for (const auto& [value, tensor] : constants_) tensors[value] = tensor;
  for (const Operation& op : operations_) tensors[op.output] = op.rule->forward(op, values_, tensors);
  State result;
  for (const size_t output : outputs_) result.push_back(tensors[output]);
  if (kept != nullptr) {
    for (size_t v = 0; v < tensors.size(); ++v) {
      if (!values_[v].kept) tensors[v].reset();
    }
    *kept = std::move(tensors);
  }
  return result;
}

State StepProgram::transposed(const Kept& kept, const Rows& rows, const State& cotangents, const std::vector<at::Tensor>& gradients) const {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  std::vector<at::Tensor> targets(values_.size());
  std::copy(gradients.begin(), gradients.end(), targets.begin() + static_cast<std::ptrdiff_t>(states_ + extras_));
  Kept mine = kept;
  for (size_t v = 0; v < mine.size(); ++v) {
    if (mine[v].defined() && values_[v].stacked && mine[v].size(0) != rows.count) {
      mine[v] = mine[v].slice(0, rows.begin, rows.begin + (rows.count - 1) * rows.spacing + 1, rows.spacing);
    }
  }
  Cotangents sums(values_, std::move(targets), !gradients.empty());
  for (size_t i = 0; i < outputs_.size(); ++i) sums.add(outputs_[i], cotangents[i]);
  for (auto op = operations_.rbegin(); op != operations_.rend(); ++op) {
    if (const at::Tensor& cotangent = sums.of(op->output); cotangent.defined() && sums.wants(op->output)) {
      op->rule->transposed(*op, values_, mine, at::Tensor(cotangent), sums);
    }
  }
  State result;
  for (size_t i = 0; i < states_; ++i) result.push_back(sums.of(i).defined() ? sums.of(i) : at::zeros_like(cotangents[i]));
  return result;
}

}  // namespace tw::layer_parallel
