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

#include <algorithm>
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

/// One item of an optimizer's state for a parameter: a tensor or a counter.
struct Field {
  const char* name;
  std::function<at::Tensor&(OptimizerParamState&)> tensor;
  std::function<int64_t&(OptimizerParamState&)> counter;
};

/// An optimizer's state for each parameter.
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
  TW_EXPECTS(false, "the state of ", c10::demangle(type.name()), " cannot be saved; supported optimizers are SGD, Adam, AdamW, RMSprop and Adagrad");
  return {};
}

std::string name_of_state(const NamedShard& slice, const Field& field) { return concat("optimizer/", slice.name, "/", field.name); }

OptimizerParamState* find_state(torch::optim::Optimizer& optimizer, const OptimizedTensor& parameter) {
  auto& states = optimizer.state();
  const auto found = states.find(parameter.tensor.unsafeGetTensorImpl());
  return found == states.end() ? nullptr : found->second.get();
}

// Calls `visit(parameter, slice, field, state)` for all existing state.
template <class Visit>
void for_each(torch::optim::Optimizer& optimizer, const std::vector<OptimizedTensor>& parameters, const Visit& visit) {
  const Kind kind = kind_of(optimizer);
  for (const OptimizedTensor& parameter : parameters) {
    OptimizerParamState* state = find_state(optimizer, parameter);
    if (state == nullptr) continue;
    for (const Field& field : kind.fields) {
      if (!field.counter && !field.tensor(*state).defined()) continue;
      for (const NamedShard& slice : parameter.slices) visit(parameter, slice, field, *state);
    }
  }
}

std::vector<OptimizedTensor> all_whole(const std::vector<NamedTensor>& tensors) {
  std::vector<OptimizedTensor> all;
  for (const auto& [name, tensor] : without_aliases(tensors)) all.push_back({tensor, {whole(name, tensor, ShardKind::parameter)}});
  return all;
}

}  // namespace

OptimizerState::OptimizerState(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters)
    : OptimizerState(optimizer, all_whole(parameters)) {
  sliced_ = false;
}

OptimizerState::OptimizerState(torch::optim::Optimizer& optimizer, std::vector<OptimizedTensor> parameters)
    : optimizer_(optimizer), parameters_(std::move(parameters)) {
  (void)kind_of(optimizer);
  std::unordered_set<const c10::TensorImpl*> own;
  std::unordered_set<const c10::TensorImpl*> named;
  for (const OptimizedTensor& parameter : parameters_) named.insert(parameter.tensor.unsafeGetTensorImpl());
  for (size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    for (const at::Tensor& tensor : optimizer.param_groups()[group].params()) {
      const bool has_no_memory =
          tensor.has_storage() && tensor.storage().nbytes() == 0 && tensor.numel() > 0;  // such as a parameter of another pipeline stage
      const bool is_idle = (!tensor.requires_grad() || has_no_memory) && optimizer.state().count(tensor.unsafeGetTensorImpl()) == 0;
      if (is_idle && !named.contains(tensor.unsafeGetTensorImpl())) continue;
      TW_EXPECTS(named.contains(tensor.unsafeGetTensorImpl()), "a parameter of shape ", shape_text(tensor.sizes().vec()), " in group ", group,
                 " of the optimizer has no name: pass all of its parameters with their names");
      own.insert(tensor.unsafeGetTensorImpl());
    }
  }
  std::erase_if(parameters_, [&](const OptimizedTensor& parameter) { return !own.contains(parameter.tensor.unsafeGetTensorImpl()); });
}

std::vector<NamedShard> OptimizerState::shards() const {
  std::vector<NamedShard> shards;
  std::set<std::string> counters;  // one per parameter, however many slices it has here
  for_each(optimizer_, parameters_, [&](const OptimizedTensor& parameter, const NamedShard& slice, const Field& field, OptimizerParamState& state) {
    const std::string name = name_of_state(slice, field);
    if (field.counter) {
      if (!counters.insert(name).second) return;
      shards.push_back(whole(name, at::scalar_tensor(field.counter(state), at::TensorOptions().dtype(at::kLong)), ShardKind::counter));
    } else {
      NamedShard shard = slice;
      shard.name = name;
      shard.drop_other_names();
      shard.tensor = counterpart(field.tensor(state), parameter.tensor, slice.tensor);
      shard.kind = ShardKind::optimizer;
      shards.push_back(std::move(shard));
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
  if (!sliced_) expect_known(wanted);  // otherwise another rank may know them; loading reports unknown names
  for (const OptimizedTensor& parameter : parameters_) {
    if (parameter.slices.empty()) continue;  // no slice here, so no name describes its state, but Adagrad cannot step without state
    const auto is_wanted = [&](const Field& field) {
      return std::any_of(parameter.slices.begin(), parameter.slices.end(),
                         [&](const NamedShard& slice) { return wanted.contains(name_of_state(slice, field)); });
    };
    auto& states = optimizer_.state();
    void* const key = parameter.tensor.unsafeGetTensorImpl();
    if (std::none_of(kind.fields.begin(), kind.fields.end(), is_wanted)) {
      states.erase(key);
      continue;
    }
    auto& state = states[key];
    if (!state) state = kind.make();
    for (const Field& field : kind.fields) {
      if (field.counter) continue;
      at::Tensor& tensor = field.tensor(*state);
      if (!is_wanted(field)) {
        tensor = at::Tensor();
      } else if (!tensor.defined()) {
        tensor = at::zeros_like(parameter.tensor.detach());
      }
    }
  }
}

void OptimizerState::expect_known(std::set<std::string> names) const {
  for (const OptimizedTensor& parameter : parameters_) {
    for (const Field& field : kind_of(optimizer_).fields) {
      for (const NamedShard& slice : parameter.slices) names.erase(name_of_state(slice, field));
    }
  }
  if (!names.empty()) {
    throw Error(concat("this optimizer, ", c10::demangle(typeid(optimizer_).name()), ", has no state with these names:\n  ", joined(names, "\n  ")));
  }
}

void OptimizerState::apply(const std::vector<NamedShard>& shards) {
  std::map<std::string, const NamedShard*> by_name;
  for (const NamedShard& shard : shards) by_name.emplace(shard.name, &shard);
  for_each(optimizer_, parameters_, [&](const OptimizedTensor&, const NamedShard& slice, const Field& field, OptimizerParamState& state) {
    if (!field.counter) return;
    const std::string name = name_of_state(slice, field);
    const auto found = by_name.find(name);
    TW_EXPECTS(found != by_name.end(), name, " is not among the shards: pass what shards() returned");
    field.counter(state) = found->second->tensor.item<int64_t>();
  });
}

}  // namespace tw
