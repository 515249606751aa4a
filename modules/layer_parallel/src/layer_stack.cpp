// SPDX-License-Identifier: Apache-2.0
#include "layer_stack.hpp"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

#include <sstream>
#include <tw/base/contract.hpp>

#include "batched_layer.hpp"
#include "generator.hpp"
#include "states.hpp"

namespace tw::layer_parallel {
namespace {

/// Stacks what `named` gives for each layer; each layer's tensor becomes a slice.
template <class Named>
std::vector<StackedTensor> stack_tensors(const std::vector<Layer>& layers, int64_t first, const Named& named) {
  std::vector<StackedTensor> stacks;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto tensors = named(*layers[i].module);
    TW_EXPECTS(i == 0 || tensors.size() == stacks.size(), "layer ", first + static_cast<int64_t>(i), " of a block has ", tensors.size(),
               " tensors, not ", stacks.size());
    for (size_t t = 0; t < tensors.size(); ++t) {
      const auto& item = tensors[t];
      if (i == 0) stacks.push_back({item.key(), {}, {}});
      TW_EXPECTS(item.key() == stacks[t].name && (i == 0 || item.value().sizes() == stacks[t].slices[0].sizes()), "tensor '", item.key(),
                 "' of layer ", first + static_cast<int64_t>(i), " differs from that of the layer before");
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

bool is_linked(const StackedTensor& tensor) {
  return tensor.slices.empty() ||
         (tensor.slices[0].data_ptr() == tensor.stack.data_ptr() && tensor.slices[0].scalar_type() == tensor.stack.scalar_type());
}

}  // namespace

LayerStack::LayerStack(const Block& block, LevelPlan::Range range, uint64_t seed, uint64_t stream) : options_(block.options), range_(range) {
  GeneratorGuard generator;
  for (int64_t i = range.begin; i < range.end; ++i) {
    generator.seed(seed, stream << 32U | static_cast<uint64_t>(i));
    layers_.push_back(block.make(i));
  }
  parameters_ = stack_tensors(layers_, range.begin, [](torch::nn::Module& m) { return m.named_parameters().items(); });
  buffers_ = stack_tensors(layers_, range.begin, [](torch::nn::Module& m) { return m.named_buffers().items(); });
  relink();
}

void LayerStack::relink() {
  for (auto* tensors : {&parameters_, &buffers_}) {
    for (const StackedTensor& tensor : *tensors) {
      if (!is_linked(tensor)) link(tensor);
    }
  }
}

void LayerStack::train(bool on) {
  training_ = on;
  for (const Layer& layer : layers_) layer.module->train(on);
}

std::vector<at::Tensor> LayerStack::parameters_of(int64_t index) const {
  std::vector<at::Tensor> result;
  for (const StackedTensor& tensor : parameters_) result.push_back(tensor.slices[static_cast<size_t>(index - range_.begin)]);
  return result;
}

std::vector<at::Tensor> LayerStack::parameters_of(int64_t first, int64_t count, int64_t spacing) const {
  std::vector<at::Tensor> stacks;
  for (const StackedTensor& tensor : parameters_) stacks.push_back(tensor.stack.detach());
  return rows(stacks, first - range_.begin, count, spacing);
}

State LayerStack::step(int64_t first, int64_t spacing, const State& states, const State& extras, double dt, const BatchedLayer* trace,
                       const std::vector<at::Tensor>& parameters) {
  const int64_t count = states.front().size(0);
  if (trace == nullptr) {
    std::vector<State> results;
    for (int64_t i = 0; i < count; ++i) {
      results.push_back(layer_parallel::step(layer(first + i * spacing), options_.integrator, row(states, i), extras, dt));
    }
    return stack(results);
  }
  const Layer all{nullptr, [&](const State& u, const State& given, double) { return trace->run(u, given, parameters); }, layers_.front().is_step};
  return layer_parallel::step(all, options_.integrator, states, extras, dt);
}

std::string LayerStack::key_of(const State& example, const State& extras, double dt) const {
  std::ostringstream key;
  key << training_;
  for (const State* tensors : {&example, &extras}) {
    for (const at::Tensor& tensor : *tensors) key << ' ' << tensor.sizes() << tensor.scalar_type();
  }
  if (layers_.front().is_step) key << ' ' << dt;
  return std::move(key).str();
}

const BatchedLayer* LayerStack::trace_for(const State& example, const State& extras, double dt) {
  if (layers_.size() < 2 || options_.batching == Batching::never) return nullptr;
  const std::string key = key_of(example, extras, dt);
  if (!traces_.contains(key)) {
    traces_[key] = nullptr;
    const std::string problem = try_batched(example, extras, dt, key);
    if (!problem.empty()) {
      traces_[key] = nullptr;
      unbatchable_ = problem;
    }
  }
  return traces_[key].get();
}

std::string LayerStack::try_batched(const State& example, const State& extras, double dt, const std::string& key) {
  if (options_.random) return "they draw random numbers";
  if (!buffers_.empty()) return "they have buffers";
  GeneratorGuard generator;
  generator.seed(0, 0);
  const c10::AutoGradMode no_gradients(false);
  try {
    const auto n = static_cast<int64_t>(layers_.size());
    const State states = each(example, [&](const at::Tensor& t) {
      std::vector<int64_t> shape = t.sizes().vec();
      shape.insert(shape.begin(), n);
      return at::randn(shape, t.options());
    });
    const auto trace = std::make_shared<BatchedLayer>(layers_.front(), parameters_of(range_.begin), row(states, 0), extras, dt);
    if (options_.batching == Batching::automatic && trace->has_convolutions()) return "they hold convolutions, which are slower together";
    traces_[key] = trace;
    const std::vector<at::Tensor> parameters = parameters_of(range_.begin, n, 1);
    const State together = step(range_.begin, 1, states, extras, dt, trace.get(), parameters);
    const State one_by_one = step(range_.begin, 1, states, extras, dt);
    for (size_t i = 0; i < together.size(); ++i) {
      const double difference = at::linalg_vector_norm(together[i].sub(one_by_one[i])).item<double>();
      const double norm = at::linalg_vector_norm(one_by_one[i]).item<double>();
      const double tolerance = together[i].scalar_type() == at::kDouble ? 1e-12 : 1e-5;  // some 50 roundings of float32, many more of float64
      if (!(difference <= tolerance * norm)) return concat("together they give something else, by ", difference / norm, " of the norm");
    }
    return "";
  } catch (const std::exception& e) {
    const std::string what = e.what();
    return what.substr(0, what.find('\n'));
  }
}

}  // namespace tw::layer_parallel
