// SPDX-License-Identifier: Apache-2.0
// Ten modules of many kinds, in float64, small enough to train on every rank. Every training method is compared on them with one
// process.
#pragma once
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/models/gpt.hpp>
#include <vector>

namespace tw::testing::subjects {

using at::Tensor;
using Tensors = std::vector<Tensor>;

constexpr int64_t rows = 10;
constexpr int64_t width = 6;

/// A model, and its training data.
struct Subject {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  std::function<Tensors(const Tensors& inputs)> forward;
  Tensors inputs;  // `rows` rows each
  Tensors targets;
  std::function<Tensor(const Tensors& outputs, const Tensors& targets)> loss;
  bool splits_matter = false;  // whether a row's result depends on the split, as with batch norm: the reference then runs the same micro-batches
};

/// A module with arbitrary parameters.
struct Parametric : torch::nn::Module {
  Tensor& add(const std::string& name, at::IntArrayRef shape) { return register_parameter(name, torch::randn(shape, torch::kDouble) / 2); }
};

inline Tensor mean_square(const Tensors& y, const Tensors& t) { return torch::mse_loss(y[0], t[0]); }

inline Subject of_matrices(const std::string& name, int matrices, const std::function<Tensors(const Tensors& w, const Tensors& x)>& forward) {
  auto module = std::make_shared<Parametric>();
  Tensors w;
  for (int i = 0; i < matrices; ++i) w.push_back(module->add(concat("w", i), {width, width}));
  return {name,
          module,
          [w, forward](const Tensors& x) { return forward(w, x); },
          {torch::randn({rows, width}, torch::kDouble)},
          {torch::randn({rows, width}, torch::kDouble)},
          mean_square};
}

template <class Holder>
inline Subject of_module(const std::string& name, Holder holder, const Tensor& x, const Tensor& target) {
  holder->to(torch::kDouble);
  return {name, holder.ptr(), [holder](const Tensors& in) mutable { return Tensors{holder->forward(in[0])}; }, {x}, {target}, mean_square};
}

inline Subject chain() {
  return of_matrices("chain", 4, [](const Tensors& w, const Tensors& x) {
    Tensor y = x[0];
    for (const Tensor& each : w) y = y.matmul(each).tanh();
    return Tensors{y};
  });
}
inline Subject fork_and_join() {
  return of_matrices("fork and join", 4, [](const Tensors& w, const Tensors& x) {
    const Tensor a = x[0].matmul(w[0]).tanh();
    const Tensor left = a.matmul(w[1]).sin();
    const Tensor right = a.matmul(w[2]).relu();
    return Tensors{(left * right + a).matmul(w[3])};
  });
}
inline Subject shared_input() {
  return of_matrices("shared input", 3, [](const Tensors& w, const Tensors& x) {
    const Tensor a = x[0].matmul(w[0]).tanh() + x[0];
    const Tensor b = a.matmul(w[1]).tanh() * x[0];
    return Tensors{b.matmul(w[2]) + x[0]};
  });
}
inline Subject shared_parameter() {
  return of_matrices("shared parameter", 2, [](const Tensors& w, const Tensors& x) {
    return Tensors{x[0].matmul(w[0]).tanh().matmul(w[1]).tanh().matmul(w[0].t()).sin().matmul(w[1])};
  });
}
inline Subject one_operator() {
  return of_matrices("one operator", 1, [](const Tensors& w, const Tensors& x) { return Tensors{x[0].matmul(w[0])}; });
}
inline Subject loss_inside() {  // a loss per row, of inputs and targets; two outputs
  Subject made = of_matrices("loss inside", 2, [](const Tensors& w, const Tensors& x) {
    const Tensor y = x[0].matmul(w[0]).tanh().matmul(w[1]);
    return Tensors{(y - x[1]).square().mean(1), y};
  });
  made.inputs.push_back(torch::randn({rows, width}, torch::kDouble));
  made.loss = [](const Tensors& y, const Tensors& /*t*/) { return y[0].mean(); };
  return made;
}
inline Subject embedding() {
  const torch::nn::Sequential net(torch::nn::Embedding(7, width), torch::nn::Linear(width, 5), torch::nn::Tanh(), torch::nn::Flatten(),
                                  torch::nn::Linear(15, 4));
  return of_module("embedding", net, torch::randint(7, {rows, 3}), torch::randn({rows, 4}, torch::kDouble));
}
inline Subject convolutional() {
  const torch::nn::Sequential net(torch::nn::Conv2d(2, 4, 3), torch::nn::BatchNorm2d(4), torch::nn::ReLU(), torch::nn::Conv2d(4, 3, 2),
                                  torch::nn::BatchNorm2d(3), torch::nn::Flatten(), torch::nn::Linear(27, 4));
  Subject made = of_module("convolutional, batch norm", net, torch::randn({rows, 2, 6, 6}, torch::kDouble), torch::randn({rows, 4}, torch::kDouble));
  made.splits_matter = true;
  return made;
}
inline Subject dropout() {
  const torch::nn::Sequential net(torch::nn::Linear(width, 8), torch::nn::Dropout(0.3), torch::nn::Tanh(), torch::nn::Linear(8, 8),
                                  torch::nn::Dropout(0.5), torch::nn::Linear(8, 4));
  return of_module("dropout", net, torch::randn({rows, width}, torch::kDouble), torch::randn({rows, 4}, torch::kDouble));
}
inline Subject gpt_dropping(const std::string& name, double dropout) {
  const models::GptOptions options{.vocabulary = 7, .context = 5, .width = 8, .heads = 2, .blocks = 2, .dropout = dropout};
  Subject made = of_module(name, models::Gpt(options), torch::randint(7, {rows, 5}), torch::randint(7, {rows, 5}));
  made.loss = [](const Tensors& y, const Tensors& t) { return torch::cross_entropy_loss(y[0].flatten(0, 1), t[0].flatten()); };
  return made;
}
inline Subject gpt() { return gpt_dropping("gpt", 0); }
inline Subject gpt_with_dropout() { return gpt_dropping("gpt, dropout", 0.1); }

inline const std::vector<Subject (*)()> all{chain,     fork_and_join, shared_input,  shared_parameter, one_operator,
                                            embedding, loss_inside,   convolutional, dropout,          gpt};

}  // namespace tw::testing::subjects
