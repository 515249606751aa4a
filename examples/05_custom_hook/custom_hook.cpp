// SPDX-License-Identifier: Apache-2.0
// Your own code in the training loop: one hook clips gradients to a global norm, one keeps a moving average of the parameters, and one prints on rank
// 0. A hook is called on every rank that added it.
//
// Build:   cmake --build build/release --target 05_custom_hook
// Run:     mpirun -n 2 build/release/bin/05_custom_hook
// Expect:  epoch 20: loss 0.0058, 16 of 320 steps clipped; averaged parameters lie 11.8 % away        (a loss below 0.01)
#include <torch/torch.h>

#include <iostream>
#include <tw/train.hpp>

/// Scales gradients to a norm of at most `limit`, with any strategy. (If this is all you need, set Options::clip.)
class Clip : public tw::train::Hook {
 public:
  explicit Clip(double limit) : limit_(limit) {}
  void on_backward(tw::train::State& state) override {
    ++steps;
    if (state.clip_gradient_norm(limit_) > limit_) ++clipped;
  }
  int64_t steps = 0;
  int64_t clipped = 0;

 private:
  double limit_;
};

/// Updates the averages after every step: `decay` of the old average, plus 1 - `decay` of the parameters.
class MovingAverage : public tw::train::Hook {
 public:
  explicit MovingAverage(double decay) : decay_(decay) {}
  void on_start(tw::train::State& state) override {
    for (const at::Tensor& parameter : state.model.tensors()) averages.push_back(parameter.detach().clone());
  }
  void on_update(tw::train::State& state) override {
    const torch::NoGradGuard no_grad;
    const auto parameters = state.model.tensors();
    for (size_t i = 0; i < averages.size(); ++i) averages[i].lerp_(parameters[i], 1 - decay_);
  }
  double distance(const tw::train::Model& model) const {
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < averages.size(); ++i) {
      difference += (averages[i] - model.tensors()[i]).square().sum().item<double>();
      norm += averages[i].square().sum().item<double>();
    }
    return std::sqrt(difference / norm);
  }
  std::vector<at::Tensor> averages;

 private:
  double decay_;
};

class Report : public tw::train::Hook {
 public:
  Report(const Clip& clip, const MovingAverage& average) : clip_(clip), average_(average) {}
  void on_end(tw::train::State& state, const tw::train::Summary& summary) override {
    std::cout << "epoch " << summary.epochs << ": loss " << tw::train::figure(summary.test, "loss") << ", " << clip_.clipped << " of " << clip_.steps
              << " steps clipped; averaged parameters lie " << 100 * average_.distance(state.model) << " % away" << std::endl;
  }

 private:
  const Clip& clip_;
  const MovingAverage& average_;
};

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  torch::manual_seed(1);
  const at::Tensor inputs = torch::rand({1024, 4});
  const tw::TensorDataset data(inputs, inputs.square().sum(1, /*keepdim=*/true));
  torch::nn::Sequential net(torch::nn::Linear(4, 32), torch::nn::ReLU(), torch::nn::Linear(32, 1));
  const auto model = tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
  torch::optim::Adam adam(model.tensors(), 1e-2);

  tw::train::Options options{.name = "05_custom_hook", .epochs = 20, .global_batch = 64};
  options.checkpoint.every_epochs = 0;
  tw::train::Trainer trainer(mpi.world(), model, adam, tw::train::regression(), data, data, options);
  Clip clip(2.0);
  MovingAverage average(0.99);
  Report report(clip, average);
  trainer.add(clip);
  trainer.add(average);
  if (mpi.world().rank() == 0) trainer.add(report);
  trainer.run();
}
