// SPDX-License-Identifier: Apache-2.0
// Unusual parts of random modules: buffers that training changes and evaluation reads elsewhere; values that are detached later; tensors that are
// neither parameters nor buffers; modules under two names. Also operators that write without declaring it, memory shared only for some numbers of
// rows, gradients in the forward pass, frozen parts, and parts that capture must refuse.
#pragma once
#include "random_parts.hpp"

namespace tw::pipeline {

class OddParts : public OrdinaryParts {
 public:
  /// Expected text of the refusal; empty: the module is not refused.
  const std::string& refusal() const { return refusal_; }

  void train(bool on = true) override {
    Module::train(on);
    for (const auto& part : frozen_) part->train(false);
    for (const auto& update : at_train_) update();
  }

 protected:
  using OrdinaryParts::OrdinaryParts;

  /// Call once all parts exist and have their dtype.
  void set_up() { train(true); }

  /// In evaluation, adds the buffers that parts updated in training.
  Tensor with_remembered(Tensor y) {
    for (const std::string& name : remembered_) {
      if (!is_training()) y = y + named_buffers()[name];
    }
    return y;
  }

  /// Freezes some parameters, as in fine-tuning.
  void freeze_some() {
    if (numbers_.below(3) != 0) return;
    for (const Tensor& each : parameters()) each.set_requires_grad(each.requires_grad() && numbers_.below(3) != 0);
    named_parameters()["head.weight"].set_requires_grad(true);
  }

  Tensor buffer(const std::string& name) { return named_buffers()[name]; }

  /// Statistics computed here and read at the end of the module.
  Step remembered() {
    splits_matter_ = true;
    register_buffer(next_name(), torch::zeros({width}, torch::kDouble));
    remembered_.push_back(next_name());
    return {"remembered", [this, name = next_name(), a = some()](const Tensors& known) {
              if (is_training()) buffer(name).mul_(0.9).add_(known[a].detach().mean({0, 1}), 0.1);
              return known[a].cos();
            }};
  }
  Step averaged_weight() {
    splits_matter_ = true;
    const auto layer = linear(width, width);
    const std::string name = concat("average", steps_.size());
    register_buffer(name, torch::zeros({width, width}, torch::kDouble));
    return {"averaged_weight", [this, layer, name, a = some()](const Tensors& known) {
              if (is_training()) buffer(name).mul_(0.5).add_(layer->weight.detach(), 0.5);
              return is_training() ? layer->forward(known[a]).tanh() : torch::linear(known[a], buffer(name), layer->bias).tanh();
            }};
  }
  /// A layer that receives no gradient.
  Step without_gradient() {
    const auto layer = linear(width, width);
    return {"without_gradient", [layer, a = some(), b = some()](const Tensors& known) {
              const Tensor y = layer->forward(known[a]).tanh().sin();
              return known[b] + (y * 0.5).detach();
            }};
  }
  Step constant() {
    const Tensor kept = torch::randn({length, width}, torch::kDouble);
    return {"constant", [kept, a = some()](const Tensors& known) {
              return known[a] * kept.to(known[a].device()) + torch::tensor({0.5, 0.25}, known[a].options()).sum();
            }};
  }
  Step two_names() {
    const auto layer = linear(width, width);
    register_module(concat("again", steps_.size()), layer);
    const Tensor mask = register_buffer(concat("mask", steps_.size()), torch::ones({width}, torch::kDouble) * 0.5);
    register_buffer(concat("mask_again", steps_.size()), mask);
    return {"two_names", [layer, mask, a = some(), b = some()](const Tensors& known) {
              return layer->forward(known[a]).tanh() + layer->forward(known[b] * mask).sin();
            }};
  }
  Step unsaid_statistics() {
    splits_matter_ = true;
    const std::string mean = concat("mean", steps_.size());
    const std::string variance = concat("variance", steps_.size());
    register_buffer(mean, torch::zeros({length}, torch::kDouble));
    register_buffer(variance, torch::ones({length}, torch::kDouble));
    return {"unsaid_statistics", [this, mean, variance, a = some()](const Tensors& known) {
              const Tensor y = std::get<0>(torch::native_batch_norm(known[a], {}, {}, buffer(mean), buffer(variance), is_training(), 0.1, 1e-5));
              return y.tanh() + buffer(mean).detach().clone().unsqueeze(1);
            }};
  }
  /// Frozen by eval() of the part.
  Step frozen_norm() {
    const auto layer = register_module(next_name(), torch::nn::BatchNorm1d(length));
    frozen_.push_back(layer);
    return {"frozen_norm", [layer, a = some()](const Tensors& known) { return layer->forward(known[a]); }};
  }
  /// Like a spectral norm: a buffer that each pass reads and changes.
  Step iterated() {
    splits_matter_ = true;
    const auto layer = linear(width, width);
    const std::string name = concat("vector", steps_.size());
    register_buffer(name, torch::ones({width}, torch::kDouble));
    return {"iterated", [this, layer, name, a = some()](const Tensors& known) {
              if (is_training()) {
                const torch::NoGradGuard no_gradients;
                Tensor vector = buffer(name);
                vector.copy_(torch::nn::functional::normalize(layer->weight.matmul(vector), torch::nn::functional::NormalizeFuncOptions().dim(0)));
              }
              const Tensor vector = buffer(name).clone();
              return torch::linear(known[a], layer->weight / (1 + vector.dot(layer->weight.matmul(vector)).abs()), layer->bias).tanh();
            }};
  }
  /// A view that shares memory only for a single row.
  Step one_row_view() {
    splits_matter_ = true;
    return {"one_row_view", [a = some()](const Tensors& known) {
              const Tensor h = known[a] * 0.5;
              const Tensor turned = h.transpose(0, 1).contiguous();
              turned.add_(0.25);
              return h.sin() + turned.transpose(0, 1);
            }};
  }
  Step force() {
    const auto layer = linear(width, width);
    const uint32_t kind = numbers_.below(3);
    return {"force", [layer, kind, a = some()](const Tensors& known) {
              const torch::AutoGradMode gradients(true);
              const Tensor at = known[a].detach().clone().requires_grad_(true);
              const Tensor y = layer->forward(at);
              const Tensor energy = (kind == 0 ? y.tanh() : kind == 1 ? y.sigmoid() : y.softmax(-1)).square().sum();
              return torch::autograd::grad({energy}, {at}, {}, true, true)[0] + known[a];
            }};
  }
  Step norms_of_now() {
    const auto instance = register_module(next_name(), torch::nn::InstanceNorm1d(torch::nn::InstanceNorm1dOptions(length).affine(true)));
    return {"norms_of_now", [instance, a = some()](const Tensors& known) { return instance->forward(known[a]); }};
  }
  Step cached() {
    const auto positions = std::make_shared<Tensor>();
    return {"cached", [positions, a = some()](const Tensors& known) {
              if (!positions->defined()) *positions = torch::arange(length, known[a].options()).sin().unsqueeze(1);
              return known[a] + *positions;
            }};
  }
  Step nine_dimensions() {
    return {"nine_dimensions", [a = some()](const Tensors& known) {
              return known[a].reshape({-1, 1, 1, 1, 1, 2, 2, 2, width / 2}).sin().cos().mul(0.5).reshape({-1, length, width});
            }};
  }
  Step strides() {
    return {"strides", [a = some()](const Tensors& known) {
              const Tensor y = known[a].contiguous().tanh();
              const Tensor all = y.narrow(2, 0, 2).as_strided({y.size(0), length, width}, {length * width, width, 1});
              return all.sin();
            }};
  }
  /// Dropout of probability 0 on equal rows, which a random number could not distinguish.
  Step no_dropout() {
    return {"no_dropout", [this, a = some()](const Tensors& known) {
              const Tensor same = torch::zeros_like(known[a]).reshape({-1, width});
              return known[a] + torch::dropout(same, 0, is_training()).view({-1, length, width});
            }};
  }
  Step gumbel() {
    draws_ = true;
    return {"gumbel", [this, a = some()](const Tensors& known) {
              const Tensor noise = -torch::log1p(-torch::empty_like(known[a]).uniform_());
              return is_training() ? torch::softmax(known[a] + noise.log1p(), -1) : known[a].softmax(-1);
            }};
  }
  /// Cannot be captured, for one of several reasons.
  Step refused() {
    const auto layer = linear(width, width);
    switch (numbers_.below(4)) {
      case 0:
        refusal_ = "it is not linear in the rows";
        return {"square", [a = some()](const Tensors& known) {
                  return known[a] * torch::ones({known[a].size(0) * (known[a].size(0) + 1)}, torch::kDouble).mean();
                }};
      case 1:
        refusal_ = "a size is";
        return {"half", [a = some()](const Tensors& known) { return known[a] + known[a].narrow(0, 0, (known[a].size(0) + 1) / 2).mean(0, true); }};
      case 2:
        refusal_ = "its result is a number";
        return {"branch", [a = some()](const Tensors& known) { return known[a].sum().item<double>() > 0 ? known[a].sin() : known[a].cos(); }};
      default: break;
    }
    refusal_ = "is neither a parameter nor a buffer, but changes with them";
    const auto fused = std::make_shared<Tensor>();
    at_train_.emplace_back([this, layer, fused] {
      if (!is_training()) *fused = layer->weight.detach() * 0.5;
    });
    return {"fused", [this, layer, fused, a = some()](const Tensors& known) {
              return torch::linear(known[a], is_training() ? layer->weight * 0.5 : *fused).tanh();
            }};
  }

 private:
  std::string refusal_;
  std::vector<std::string> remembered_;
  std::vector<std::shared_ptr<torch::nn::Module>> frozen_;
  std::vector<std::function<void()>> at_train_;
};

}  // namespace tw::pipeline
