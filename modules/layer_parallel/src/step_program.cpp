// SPDX-License-Identifier: Apache-2.0
#include "step_program.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <optional>
#include <tw/base/concat.hpp>
#include <unordered_map>

#include "states.hpp"

namespace tw::layer_parallel {
namespace {

/// Whether an operation gave it memory of its own.
bool is_fresh(const torch::jit::Value& value) {
  const torch::jit::Node& node = *value.node();
  return node.kind() != c10::prim::Param && node.kind() != c10::prim::Constant && node.kind() != c10::aten::t;
}

}  // namespace

std::unique_ptr<StepProgram> StepProgram::compile(const torch::jit::Graph& graph, size_t states, size_t extras, std::string& problem) {
  std::unique_ptr<StepProgram> program(new StepProgram());
  program->states_ = states;
  program->extras_ = extras;
  std::unordered_map<const torch::jit::Value*, size_t> index;
  std::optional<at::ScalarType> dtype;
  // All of one floating type, but for single numbers.
  const auto describe = [&](const torch::jit::Value* value) -> std::optional<Value> {
    const auto type = value->type()->cast<c10::TensorType>();
    const auto sizes = type ? type->sizes().concrete_sizes() : std::nullopt;
    if (!sizes || !type->scalarType()) return std::nullopt;
    if (!sizes->empty()) {
      if (!dtype) dtype = *type->scalarType();
      if (*type->scalarType() != *dtype || !at::isFloatingType(*dtype)) return std::nullopt;
    }
    return Value{.sizes = *sizes};
  };
  const auto add_value = [&](const torch::jit::Value* value) -> Value* {
    const std::optional<Value> described = describe(value);
    if (!described) {
      problem = "they hold tensors of several types, or of none known";
      return nullptr;
    }
    index[value] = program->values_.size();
    return &program->values_.emplace_back(*described);
  };
  const size_t inputs = graph.inputs().size();
  for (size_t i = 0; i < inputs; ++i) {
    Value* const value = add_value(graph.inputs()[i]);
    if (value == nullptr) return nullptr;
    value->of_state = i < states;
    value->of_parameters = i >= states + extras;
    value->stacked = value->of_state || value->of_parameters;
  }
  for (const torch::jit::Node* node : graph.nodes()) {
    if (node->kind() == c10::prim::Constant) {
      const std::optional<c10::IValue> constant = torch::jit::toIValue(node->output());
      if (!constant || !constant->isTensor()) continue;
      if (add_value(node->output()) == nullptr) return nullptr;
      program->constants_.emplace_back(program->values_.size() - 1, constant->toTensor());
      continue;
    }
    const std::string_view name = node->kind().toUnqualString();
    Operation op{.rule = rule_of(name)};
    bool holds = op.rule != nullptr && node->outputs().size() == 1;
    // Nobody else may see what an operation in place changes.
    if (holds && name.ends_with('_')) holds = is_fresh(*node->inputs()[0]) && node->inputs()[0]->uses().size() == 1;
    Value result;
    for (const torch::jit::Value* input : node->inputs()) {
      const auto found = index.find(input);
      if (found != index.end()) {
        op.inputs.push_back(found->second);
        const Value& value = program->values_[found->second];
        result.stacked |= value.stacked;
        result.of_state |= value.of_state;
        result.of_parameters |= value.of_parameters;
      } else if (const auto constant = torch::jit::toIValue(input)) {
        op.constants.push_back(*constant);
      } else {
        holds = false;
      }
    }
    Value* const output = holds ? add_value(node->output()) : nullptr;
    if (holds && output == nullptr) return nullptr;
    if (holds) {
      result.sizes = output->sizes;
      *output = result;
      op.output = program->values_.size() - 1;
    }
    if (!holds || (op.rule->holds != nullptr && !op.rule->holds(op, program->values_))) {
      problem = concat("there is no rule for ", node->kind().toQualString(), " with such arguments");
      return nullptr;
    }
    program->operations_.push_back(std::move(op));
  }
  for (const torch::jit::Value* output : graph.outputs()) {
    const auto found = index.find(output);
    if (found == index.end() || !program->values_[found->second].stacked) {
      problem = "a part of the next state is the same for all layers";
      return nullptr;
    }
    program->outputs_.push_back(found->second);
  }
  std::vector<size_t> uses(program->values_.size(), 0);
  for (const size_t output : program->outputs_) ++uses[output];
  for (const Operation& op : program->operations_) {
    for (const size_t input : op.inputs) {
      ++uses[input];
      program->values_[input].kept |= op.rule->keeps_inputs;
    }
    program->values_[op.output].kept |= op.rule->keeps_output;
  }
  std::vector<bool> fresh(program->values_.size(), false);  // in memory of its own
  for (Operation& op : program->operations_) {
    const size_t input = op.inputs[0];
    op.in_place = op.inputs.size() == 1 && uses[input] == 1 && fresh[input] && !program->values_[input].kept;
    fresh[op.output] = op.rule->name != "t";
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
