// SPDX-License-Identifier: Apache-2.0
// The reference of the table: one process that runs the parts of an update (place, micro-batch) in order.
#pragma once
#include "settings.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tw/autograd/generator.hpp>
#include <tw/planning/stage_ranks.hpp>
#include <tw/state/optimizer_state.hpp>
#include <utility>

namespace tw::testing::mesh {

/// A part of an update.
struct Part {
  int64_t update = 0;
  int64_t micro_batch = 0;
  int64_t micro_batches = 1;
  int64_t place = 0;
  pipeline::Rows rows = {};  ///< in the batch of the place

  int64_t number() const { return update * micro_batches + micro_batch; }
};

/// A tensor of the whole model.
struct WholeTensor {
  std::string name;
  Tensors layers = {};      ///< of one process
  bool is_stacked = false;  ///< the whole one has a dimension for the layers
};

/// A model in one process.
struct OneProcess {
  std::shared_ptr<torch::nn::Module> module;
  std::function<Tensors(const Tensors& inputs, const Part& part)> forward;
  std::vector<WholeTensor> tensors;  ///< parameters and buffers
  std::function<Tensors(const Tensors& inputs)> evaluate;
};

/// All tensors of a module, each as it is, and under its first name.
inline std::vector<WholeTensor> whole_tensors(const torch::nn::Module& module) {
  std::vector<WholeTensor> all;
  const auto add = [&](const auto& each) {
    const bool is_known = std::ranges::any_of(all, [&](const WholeTensor& known) { return known.layers.front().is_same(each.value()); });
    if (!is_known) all.push_back({each.key(), {each.value()}});
  };
  for (const auto& each : module.named_parameters()) add(each);
  for (const auto& each : module.named_buffers()) add(each);
  return all;
}

/// The parameters of a module, each once.
inline Tensors parameters_once(const torch::nn::Module& module) {
  Tensors all;
  for (const at::Tensor& each : module.parameters()) {
    if (std::ranges::none_of(all, [&](const at::Tensor& known) { return known.is_same(each); })) all.push_back(each);
  }
  return all;
}

class Reference {
 public:
  /// @param is_other sums the parts' gradients in reverse order, and rounds otherwise
  Reference(OneProcess model, Loss loss, const Settings& settings, bool is_other)
      : model_(std::move(model)),
        loss_(std::move(loss)),
        settings_(settings),
        is_other_(is_other),
        parameters_(parameters_once(*model_.module)),
        optimizer_(settings.optimizer(trained())) {}

  /// An update of a single step.
  double step(const std::vector<Batch>& batches, int64_t number) {
    const double loss = add(batches, number);
    finish();
    return loss;
  }

  /// Adds the gradients of step `number`.
  double add(const std::vector<Batch>& batches, int64_t number) {
    double weight = 0;
    int64_t all_rows = 0;
    for (const Batch& batch : batches) {
      const int64_t rows = batch.targets.front().size(0);
      all_rows += rows;
      if (rows > 0) weight += loss_.weight(batch.targets, rows);
    }
    const Tensors buffers = buffer_values();
    std::vector<Tensors> after;
    std::vector<double> shares;
    double total = 0;
    for (size_t place = 0; place < batches.size(); ++place) {
      set_buffers(buffers);
      const int64_t rows = batches[place].targets.front().size(0);
      for (int64_t m = 0; m < settings_.micro_batches; ++m) {
        const Part part{number, m, settings_.micro_batches, static_cast<int64_t>(place), pipeline::part_of({0, rows}, settings_.micro_batches, m)};
        if (part.rows.count() == 0) continue;
        const Tensors targets = narrow(batches[place].targets, part.rows);
        const double share = loss_.weight(targets, part.rows.count()) / weight;
        const Tensors outputs = under_autocast([&] { return model_.forward(narrow(batches[place].inputs, part.rows), part); });
        if (share == 0) continue;
        const at::Tensor loss = loss_.mean(outputs, targets) * share;
        model_.module->zero_grad(true);
        loss.backward();
        total += loss.item<double>();
        gradients_.push_back(own_gradients());
      }
      if (rows == 0) continue;
      after.push_back(buffer_values());
      shares.push_back(static_cast<double>(rows) / static_cast<double>(all_rows));
    }
    set_buffers(combined(after, shares));
    return total;
  }

  void finish() {
    set_gradients(std::exchange(gradients_, {}));
    if (settings_.clip) torch::nn::utils::clip_grad_norm_(trained(), max_norm);
    optimizer_->step();
  }

  /// Outputs in evaluation mode.
  Tensors evaluate(const Tensors& inputs) const {
    const torch::NoGradGuard no_grad;
    model_.module->eval();
    return under_autocast([&] { return model_.evaluate(inputs); });
  }

  /// Parameters, buffers and optimizer state of the whole model, by name.
  std::map<std::string, at::Tensor> state() const {
    std::map<std::string, at::Tensor> all;
    std::vector<NamedTensor> numbered;
    for (size_t i = 0; i < parameters_.size(); ++i) numbered.push_back({std::to_string(i), parameters_[i]});
    std::map<std::string, at::Tensor> optimizer;
    for (const NamedShard& shard : OptimizerState(*optimizer_, numbered).shards()) optimizer[shard.name] = shard.tensor;
    for (const WholeTensor& each : model_.tensors) {
      const auto together = [&](const Tensors& layers) { return (each.is_stacked ? torch::stack(layers) : layers.front()).detach().clone(); };
      all[each.name] = together(each.layers);
      for (const std::string what : {"exp_avg", "exp_avg_sq", "momentum_buffer"}) {
        Tensors states;
        for (const at::Tensor& layer : each.layers) {
          for (size_t i = 0; i < parameters_.size(); ++i) {
            const auto found = optimizer.find("optimizer/" + std::to_string(i) + "/" + what);
            if (parameters_[i].is_same(layer) && found != optimizer.end()) states.push_back(found->second);
          }
        }
        if (states.size() == each.layers.size()) all["optimizer/" + each.name + "/" + what] = together(states);
      }
    }
    return all;
  }

  static constexpr double max_norm = 0.1;

 private:
  /// What `forward` returns, in at least float32.
  template <class Forward>
  Tensors under_autocast(const Forward& forward) const {
    const ComputeScope compute(settings_.compute, at::kCPU);
    Tensors outputs = forward();
    for (at::Tensor& each : outputs) each = in_float32(each);
    return outputs;
  }
  Tensors trained() const {
    Tensors some;
    for (const at::Tensor& each : parameters_) {
      if (each.requires_grad()) some.push_back(each);
    }
    return some;
  }
  static Tensors narrow(const Tensors& tensors, pipeline::Rows rows) {
    Tensors parts;
    for (const at::Tensor& each : tensors) parts.push_back(each.narrow(0, rows.begin, rows.count()));
    return parts;
  }
  Tensors own_gradients() const {
    Tensors all;
    for (const at::Tensor& each : parameters_) {
      const at::Tensor& gradient = each.grad();
      all.push_back(gradient.defined() ? (gradient.is_sparse() ? gradient.to_dense() : gradient.clone()) : gradient);
    }
    return all;
  }
  void set_gradients(std::vector<Tensors> parts) {
    if (is_other_) std::reverse(parts.begin(), parts.end());
    model_.module->zero_grad(true);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      for (const Tensors& part : parts) {
        at::Tensor& gradient = parameters_[i].mutable_grad();
        if (part[i].defined()) gradient = gradient.defined() ? gradient + part[i] : part[i];
      }
    }
    if (is_other_) round_otherwise();
  }
  /// What another order of additions within operators may do: errors of half a unit in the last place of the largest element, of which the table
  /// allows 32 times as much as is drawn here.
  void round_otherwise() {
    GeneratorGuard generator;
    generator.seed(1, 0);
    const double size = settings_.float32 ? 0x1p-29 : 0x1p-58;
    double largest = 0;
    for (const at::Tensor& each : parameters_) {
      if (each.grad().defined()) largest = std::max(largest, each.grad().abs().max().item<double>());
    }
    for (const at::Tensor& each : parameters_) {
      if (each.grad().defined()) each.mutable_grad() = each.grad() + torch::randn_like(each) * (size * largest);
    }
  }
  Tensors buffer_values() const {
    Tensors all;
    for (const at::Tensor& each : model_.module->buffers()) all.push_back(each.clone());
    return all;
  }
  void set_buffers(const Tensors& values) const {
    const Tensors buffers = model_.module->buffers();
    for (size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(values[i]);
  }
  static Tensors combined(const std::vector<Tensors>& places, const std::vector<double>& shares) {
    Tensors all = places.front();
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].is_floating_point()) all[i] = all[i] * shares[0];
      for (size_t place = 1; place < places.size(); ++place) {
        const at::Tensor& other = places[place][i];
        all[i] = all[i].is_floating_point() ? all[i] + other * shares[place] : torch::maximum(all[i], other);
      }
    }
    return all;
  }

  OneProcess model_;
  Loss loss_;
  Settings settings_;
  bool is_other_;
  Tensors parameters_;
  std::vector<Tensors> gradients_;  // of the parts of an update
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

/// The largest error of a tensor, relative to the larger of its norm and the largest norm of its kind: gradients that are zero in exact arithmetic,
/// and what an optimizer makes of them, have no size of their own.
inline std::pair<double, std::string> largest_error(const std::map<std::string, at::Tensor>& ours,
                                                    const std::map<std::string, at::Tensor>& expected) {
  const auto kind_of = [](const std::string& name) { return name.starts_with("optimizer/") ? name.substr(name.rfind('/')) : std::string(); };
  std::map<std::string, double> norms;
  const auto norm = [](const at::Tensor& tensor) { return tensor.to(at::kDouble).norm().item<double>(); };
  for (const auto& [name, tensor] : expected) norms[kind_of(name)] = std::max(norms[kind_of(name)], norm(tensor));
  std::pair<double, std::string> largest{0, ""};
  for (const auto& [name, tensor] : expected) {
    const auto found = ours.find(name);
    if (found == ours.end()) return {infinity, name + " is missing"};
    if (found->second.sizes() != tensor.sizes()) return {infinity, name + " has another shape"};
    const double error = norm(found->second.cpu().to(at::kDouble) - tensor.to(at::kDouble)) / std::max(norms[kind_of(name)], 1e-300);
    if (!(error <= largest.first)) largest = {error, name};
  }
  return largest;
}

}  // namespace tw::testing::mesh
