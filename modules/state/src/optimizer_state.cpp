// SPDX-License-Identifier: Apache-2.0
#include <tw/state/optimizer_state.hpp>

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Type.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <tw/base/contract.hpp>
#include <typeinfo>
#include <unordered_set>

namespace tw {
namespace {

using torch::optim::OptimizerParamState;

/// One thing that an optimizer remembers of a parameter: a tensor, or else a counter.
struct Field {
  const char* name;
  std::function<at::Tensor&(OptimizerParamState&)> tensor;
  std::function<int64_t&(OptimizerParamState&)> counter;
};

/// What an optimizer remembers of every parameter.
struct Kind {
  std::function<std::unique_ptr<OptimizerParamState>()> make;
  std::vector<Field> fields;
};

template <class State>
Field tensor_field(const char* name, at::Tensor& (State::*access)() noexcept) {
  return {name, [access](OptimizerParamState& state) -> at::Tensor& { return (static_cast<State&>(state).*access)(); }, {}};
}

template <class State>
Field counter_field(const char* name, int64_t& (State::*access)() noexcept) {
  return {name, {}, [access](OptimizerParamState& state) -> int64_t& { return (static_cast<State&>(state).*access)(); }};
}

template <class State>
Kind kind_with(std::vector<Field> fields) {
  return {[] { return std::make_unique<State>(); }, std::move(fields)};
}

template <class State>
Kind adam_like() {
  return kind_with<State>({counter_field<State>("step", &State::step), tensor_field<State>("exp_avg", &State::exp_avg),
                           tensor_field<State>("exp_avg_sq", &State::exp_avg_sq), tensor_field<State>("max_exp_avg_sq", &State::max_exp_avg_sq)});
}

Kind kind_of(const torch::optim::Optimizer& optimizer) {
  using namespace torch::optim;
  const std::type_info& type = typeid(optimizer);
  if (type == typeid(SGD)) return kind_with<SGDParamState>({tensor_field<SGDParamState>("momentum_buffer", &SGDParamState::momentum_buffer)});
  if (type == typeid(Adam)) return adam_like<AdamParamState>();
  if (type == typeid(AdamW)) return adam_like<AdamWParamState>();
  if (type == typeid(RMSprop)) {
    return kind_with<RMSpropParamState>({counter_field<RMSpropParamState>("step", &RMSpropParamState::step),
                                         tensor_field<RMSpropParamState>("square_avg", &RMSpropParamState::square_avg),
                                         tensor_field<RMSpropParamState>("momentum_buffer", &RMSpropParamState::momentum_buffer),
                                         tensor_field<RMSpropParamState>("grad_avg", &RMSpropParamState::grad_avg)});
  }
  if (type == typeid(Adagrad)) {
    return kind_with<AdagradParamState>(
        {counter_field<AdagradParamState>("step", &AdagradParamState::step), tensor_field<AdagradParamState>("sum", &AdagradParamState::sum)});
  }
  TW_EXPECTS(false, "the state of ", c10::demangle(type.name()), " cannot be saved; SGD, Adam, AdamW, RMSprop and Adagrad can");
  return {};
}

std::string name_of_state(const NamedTensor& parameter, const Field& field) { return concat("optimizer/", parameter.name, "/", field.name); }

OptimizerParamState* find_state(torch::optim::Optimizer& optimizer, const NamedTensor& parameter) {
  auto& states = optimizer.state();
  const auto found = states.find(parameter.tensor.unsafeGetTensorImpl());
  return found == states.end() ? nullptr : found->second.get();
}

// Calls `visit(name, field, state)` for all that exists.
template <class Visit>
void for_each(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters, const Visit& visit) {
  const Kind kind = kind_of(optimizer);
  for (const NamedTensor& parameter : parameters) {
    OptimizerParamState* state = find_state(optimizer, parameter);
    if (state == nullptr) continue;
    for (const Field& field : kind.fields) {
      if (field.counter || field.tensor(*state).defined()) visit(name_of_state(parameter, field), field, *state);
    }
  }
}

}  // namespace

OptimizerState::OptimizerState(torch::optim::Optimizer& optimizer, std::vector<NamedTensor> parameters)
    : optimizer_(optimizer), parameters_(without_aliases(std::move(parameters))) {
  (void)kind_of(optimizer);
  std::unordered_set<const c10::TensorImpl*> own;
  std::unordered_set<const c10::TensorImpl*> named;
  for (const NamedTensor& parameter : parameters_) named.insert(parameter.tensor.unsafeGetTensorImpl());
  for (size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    for (const at::Tensor& tensor : optimizer.param_groups()[group].params()) {
      TW_EXPECTS(named.contains(tensor.unsafeGetTensorImpl()), "a parameter of shape ", shape_text(tensor.sizes().vec()), " in group ", group,
                 " of the optimizer has no name");
      own.insert(tensor.unsafeGetTensorImpl());
    }
  }
  std::erase_if(parameters_, [&](const NamedTensor& parameter) { return !own.contains(parameter.tensor.unsafeGetTensorImpl()); });
}

std::vector<NamedShard> OptimizerState::shards() const {
  std::vector<NamedShard> shards;
  for_each(optimizer_, parameters_, [&](const std::string& name, const Field& field, OptimizerParamState& state) {
    if (field.counter) {
      shards.push_back(whole(name, at::scalar_tensor(field.counter(state), at::TensorOptions().dtype(at::kLong)), ShardKind::counter));
    } else {
      shards.push_back(whole(name, field.tensor(state), ShardKind::optimizer));
    }
  });
  return shards;
}

void OptimizerState::prepare(const std::vector<std::string>& names) {
  const Kind kind = kind_of(optimizer_);
  std::set<std::string> wanted;
  for (const std::string& name : names) {
    if (name.starts_with("optimizer/")) wanted.insert(name);
  }
  std::set<std::string> unknown = wanted;
  for (const NamedTensor& parameter : parameters_) {
    for (const Field& field : kind.fields) unknown.erase(name_of_state(parameter, field));
  }
  std::string problems;
  for (const std::string& name : unknown) problems += "\n  " + name;
  if (!problems.empty()) {
    throw Error(concat("this optimizer, ", c10::demangle(typeid(optimizer_).name()), ", has no such state:", problems));
  }

  for (const NamedTensor& parameter : parameters_) {
    bool any = false;
    for (const Field& field : kind.fields) any = any || wanted.contains(name_of_state(parameter, field));
    auto& states = optimizer_.state();
    void* const key = parameter.tensor.unsafeGetTensorImpl();
    if (!any) {
      states.erase(key);
      continue;
    }
    auto& state = states[key];
    if (!state) state = kind.make();
    for (const Field& field : kind.fields) {
      if (field.counter) continue;
      at::Tensor& tensor = field.tensor(*state);
      if (!wanted.contains(name_of_state(parameter, field))) {
        tensor = at::Tensor();
      } else if (!tensor.defined()) {
        tensor = at::zeros_like(parameter.tensor.detach());
      }
    }
  }
}

void OptimizerState::apply(const std::vector<NamedShard>& shards) {
  std::map<std::string, const NamedShard*> by_name;
  for (const NamedShard& shard : shards) by_name.emplace(shard.name, &shard);
  for_each(optimizer_, parameters_, [&](const std::string& name, const Field& field, OptimizerParamState& state) {
    if (!field.counter) return;
    const auto found = by_name.find(name);
    TW_EXPECTS(found != by_name.end(), name, " is not among the shards");
    field.counter(state) = found->second->tensor.item<int64_t>();
  });
}

}  // namespace tw
