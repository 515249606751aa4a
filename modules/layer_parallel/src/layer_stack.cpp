// SPDX-License-Identifier: Apache-2.0
#include "layer_stack.hpp"

#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <set>
#include <tw/autograd/generator.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/parallel_in_time/states.hpp>

#include "batching_stepper.hpp"
#include "named_layer.hpp"

namespace tw::layer_parallel {
namespace {

bool can_be_stacked(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.requires_grad() == b.requires_grad();
}

/// Stacks the tensors that `named` returns for each layer, and makes each layer's tensor a slice of its stack.
template <class Named>
std::vector<StackedTensor> stack_tensors(const std::vector<Layer>& layers, int64_t first, const Named& named) {
  std::vector<StackedTensor> stacks;
  std::set<const c10::TensorImpl*> seen;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto tensors = named(*layers[i].module);
    TW_EXPECTS(i == 0 || tensors.size() == stacks.size(), "layer ", first + static_cast<int64_t>(i), " of a block has ", tensors.size(),
               " tensors, but the first layer has ", stacks.size());
    for (size_t t = 0; t < tensors.size(); ++t) {
      const auto& item = tensors[t];
      if (i == 0) stacks.push_back({item.key(), {}, {}});
      const int64_t layer = first + static_cast<int64_t>(i);
      TW_EXPECTS(item.key() == stacks[t].name && (i == 0 || can_be_stacked(item.value(), stacks[t].slices[0])), "tensor '", item.key(), "' of layer ",
                 layer, " differs from the first layer's in name, shape, dtype or requires_grad");
      TW_EXPECTS(seen.insert(item.value().unsafeGetTensorImpl()).second, "tensor '", item.key(), "' of layer ", layer,
                 " is shared with another layer or name: a factory must make a new layer at each call, with its own tensors");
      stacks[t].slices.push_back(item.value());
    }
  }
  for (StackedTensor& each : stacks) {
    const c10::AutoGradMode no_gradients(false);
    std::vector<at::Tensor> values;
    for (const at::Tensor& slice : each.slices) values.push_back(slice.detach());
    each.stack = at::stack(values).set_requires_grad(each.slices[0].requires_grad());
  }
  return stacks;
}

void link(const StackedTensor& tensor) {
  const at::Tensor values = tensor.stack.detach();
  for (size_t i = 0; i < tensor.slices.size(); ++i) tensor.slices[i].set_data(values.select(0, static_cast<int64_t>(i)));
}

/// The storage, without access to its memory, which a sharded stack may not have at this time.
const c10::StorageImpl* storage_of(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(); }

bool is_linked(const StackedTensor& tensor) {
  if (tensor.slices.empty()) return true;
  const at::Tensor& first = tensor.slices[0];
  return storage_of(first) == storage_of(tensor.stack) && first.storage_offset() == tensor.stack.storage_offset() &&
         first.scalar_type() == tensor.stack.scalar_type();
}

}  // namespace

LayerStack::~LayerStack() = default;

LayerStack::LayerStack(const Block& block, LevelPlan::Range range, uint64_t seed, uint64_t stream)
    : options_(block.options), range_(range), block_(stream) {
  GeneratorGuard generator;
  for (int64_t i = range.begin; i < range.end; ++i) {
    generator.seed(seed, stream << 32U | static_cast<uint64_t>(i));
    layers_.push_back(named_layer(block.make(i), name_of(i), true));
  }
  parameters_ = stack_tensors(layers_, range.begin, [](torch::nn::Module& m) { return m.named_parameters().items(); });
  if (!layers_.empty()) {
    const std::map<std::string, SlicedParameter> slices = slices_by_name(*layers_[0].module);
    for (StackedTensor& each : parameters_) {
      if (const auto found = slices.find(each.name); found != slices.end()) each.of_split = found->second;
    }
  }
  buffers_ = stack_tensors(layers_, range.begin, [](torch::nn::Module& m) { return m.named_buffers().items(); });
  begin_pass();
}

std::string LayerStack::name_of(int64_t index) const { return concat("layer ", index, " of block ", block_); }

bool LayerStack::has_split_layers() const {
  return std::ranges::any_of(parameters_, [](const StackedTensor& each) { return each.of_split.has_value(); });
}

void LayerStack::begin_pass() {
  ++pass_;
  for (auto* tensors : {&parameters_, &buffers_}) {
    for (const StackedTensor& tensor : *tensors) {
      if (!tensor.slices.empty() && tensor.slices[0].requires_grad() != tensor.stack.requires_grad()) {
        for (const at::Tensor& slice : tensor.slices) slice.set_requires_grad(tensor.stack.requires_grad());
      }
      if (is_linked(tensor)) {
        (void)tensor.stack.detach();  // an operator, which gathers a sharded stack
        continue;
      }
      link(tensor);
      views_.clear();
    }
  }
}

void LayerStack::train(bool on) {
  training_ = on;
  for (const Layer& layer : layers_) layer.module->train(on);
}

Modules LayerStack::modules() const {
  Modules all;
  for (const Layer& layer : layers_) {
    for (const auto& each : with_parts(*layer.module)) all.push_back(each);
  }
  return all;
}

void LayerStack::set(const Modes& modes) {
  training_ = modes.training;
  if (modes.of_parts.restore()) ++pass_;  // modes changed: all layers are traced again
}

std::vector<at::Tensor> LayerStack::parameters_of(int64_t index) const {
  std::vector<at::Tensor> result;
  for (const StackedTensor& tensor : parameters_) result.push_back(tensor.slices[static_cast<size_t>(index - range_.begin)]);
  return result;
}

const std::vector<at::Tensor>& LayerStack::parameters_of(const Rows& layers) const {
  auto [found, is_new] = views_.try_emplace({layers.begin, layers.count, layers.spacing});
  if (is_new) {
    std::vector<at::Tensor> stacks;
    for (const StackedTensor& tensor : parameters_) stacks.push_back(tensor.stack.detach());
    found->second = rows(stacks, layers.begin - range_.begin, layers.count, layers.spacing);
  }
  return found->second;
}

bool LayerStack::Case::fits(bool is_training, double length, const State& states, const State& extras) const {
  if (training != is_training || dt != length || autocast != AutocastState::here() || tensors.size() != states.size() + extras.size()) return false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool is_state = i < states.size();
    const at::Tensor& tensor = is_state ? states[i] : extras[i - states.size()];
    if (tensor.sizes().slice(is_state ? 1 : 0) != at::IntArrayRef(tensors[i].first) || tensor.scalar_type() != tensors[i].second) return false;
  }
  return true;
}

namespace {
constexpr size_t max_steppers = 64;  // one for each shape and step length, for inputs whose size changes between passes
}

Stepper& LayerStack::stepper(const State& states, const State& extras, double dt) {
  const auto found = std::find_if(steppers_.begin(), steppers_.end(), [&](const auto& it) { return it.first.fits(training_, dt, states, extras); });
  if (found != steppers_.end()) return *found->second;
  Case of{training_, dt, AutocastState::here(), {}};
  for (const at::Tensor& tensor : states) of.tensors.emplace_back(tensor.sizes().slice(1).vec(), tensor.scalar_type());
  for (const at::Tensor& tensor : extras) of.tensors.emplace_back(tensor.sizes().vec(), tensor.scalar_type());
  if (steppers_.size() == max_steppers) steppers_.erase(steppers_.begin());
  return *steppers_.emplace_back(std::move(of), std::make_unique<BatchingStepper>(*this, options_, states, extras, dt)).second;
}

std::string LayerStack::unbatchable() const {
  for (const auto& [of, stepper] : steppers_) {
    if (stepper->last_pass() == pass_ && !stepper->runs_together()) return stepper->unbatchable();
  }
  return "";
}

}  // namespace tw::layer_parallel
