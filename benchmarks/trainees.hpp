// SPDX-License-Identifier: Apache-2.0
// Networks whose training is measured.
#pragma once
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/models/gpt.hpp>
#include <tw/models/lenet.hpp>
#include <tw/models/mlp.hpp>
#include <vector>

namespace tw::benchmark {

/// A network, its data and its optimizer on one rank.
class Trainee {
 public:
  using Forward = std::function<at::Tensor(const at::Tensor&)>;
  Trainee(std::shared_ptr<torch::nn::Module> module, Forward forward, at::Tensor inputs)
      : module_(std::move(module)),
        forward_(std::move(forward)),
        inputs_(std::move(inputs)),
        targets_(torch::randint(10, {inputs_.size(0)}, torch::kLong)),
        sgd_(module_->parameters(), torch::optim::SGDOptions(1e-3)) {}

  const torch::nn::Module& module() const { return *module_; }

  const torch::optim::Optimizer& optimizer() const { return sgd_; }

  void backward() { torch::cross_entropy_loss(forward_(inputs_), targets_).backward(); }

  /// One step; `reduce` is called between backward and the update.
  void step(const std::function<void()>& reduce = [] {}) {
    sgd_.zero_grad();
    backward();
    reduce();
    sgd_.step();
  }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  Forward forward_;
  at::Tensor inputs_;
  at::Tensor targets_;
  torch::optim::SGD sgd_;
};

inline Trainee make_lenet(int64_t batch) {
  tw::models::LeNet net;
  return {net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); }, torch::randn({batch, 1, 28, 28})};
}

inline Trainee make_mlp(const std::vector<int64_t>& widths, int64_t batch) {
  tw::models::Mlp net(widths);
  return {net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); }, torch::randn({batch, widths.front()})};
}

/// 2.4e6 parameters.
inline Trainee make_gpt() {
  models::Gpt net(models::GptOptions{.vocabulary = 256, .context = 64, .width = 128, .heads = 4, .blocks = 12});
  const auto forward = [net](const at::Tensor& x) mutable { return net->forward(x).mean(1).narrow(1, 0, 10); };
  return {net.ptr(), forward, torch::randint(256, {4, 64}, torch::kLong)};
}

struct TraineeCase {
  std::string name;
  int steps = 1;  ///< per round
  std::function<Trainee()> make;
};

/// From 5e4 to 8e6 parameters.
inline std::vector<TraineeCase> trainees() {
  return {{"mlp_5e4", 100, [] { return make_mlp({64, 192, 192, 10}, 64); }},
          {"lenet", 10, [] { return make_lenet(64); }},
          {"mlp_8e6", 5, [] { return make_mlp({1024, 1600, 1600, 1600, 800, 10}, 32); }}};
}

/// The trainee of this name, or gpt_12. @throws ContractError for an unknown name
inline TraineeCase trainee(const std::string& name) {
  if (name == "gpt_12") return {name, 3, make_gpt};
  for (const TraineeCase& each : trainees()) {
    if (each.name == name) return each;
  }
  throw ContractError(concat("there is no trainee '", name, "'"));
}

}  // namespace tw::benchmark
