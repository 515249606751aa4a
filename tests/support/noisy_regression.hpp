// SPDX-License-Identifier: Apache-2.0
// A training problem that no constant learning rate solves well: a linear model of noisy samples, a few at a time, starting far away. A large rate
// comes near soon, but then noise keeps it at a distance. A small rate does not come near.
#pragma once
#include <ATen/ops/zeros.h>

#include <tw/base/random.hpp>
#include <tw/evolution/draws.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw::testing {

/// Stochastic gradient descent with momentum on the squared error of y = w x, where y = w' x + noise, and inputs and noise are normal.
class NoisyRegression {
 public:
  static constexpr int64_t steps = 600;
  static constexpr int64_t inputs = 16;
  static constexpr int64_t batch = 4;
  static constexpr double momentum = 0.5;
  static constexpr double distance = 1000;  ///< of each weight from its initial value, 0
  static constexpr double noise = 4;        ///< standard deviation of the noise

  /// @param stream for the samples
  NoisyRegression(double rate, uint64_t seed, uint64_t stream) : rate_(rate), seed_(seed), stream_(stream) {}

  /// Weights and velocities, shape [inputs].
  std::vector<NamedTensor> tensors() const { return {{"weights", weights_}, {"velocities", velocities_}}; }

  /// @param step counts from 1; each step has different samples
  void step(int64_t step) {
    CounterRng random(seed_, stream_ << 32 | static_cast<uint64_t>(step));
    auto* w = weights_.mutable_data_ptr<double>();
    auto* v = velocities_.mutable_data_ptr<double>();
    std::vector<double> gradient(inputs);
    for (int64_t sample = 0; sample < batch; ++sample) {
      std::vector<double> x(inputs);
      for (double& each : x) each = tw::normal(random);
      double error = -noise * tw::normal(random);
      for (size_t i = 0; i < x.size(); ++i) error += (w[i] - distance) * x[i];
      for (size_t i = 0; i < x.size(); ++i) gradient[i] += 2 * error * x[i] / batch;
    }
    for (size_t i = 0; i < gradient.size(); ++i) {
      v[i] = momentum * v[i] + gradient[i];
      w[i] -= rate_ * v[i];
    }
  }

  /// The expected squared error in excess of the unavoidable noise: inputs are independent, with variance 1.
  double excess() const {
    double sum = 0;
    const auto* w = weights_.const_data_ptr<double>();
    for (int64_t i = 0; i < inputs; ++i) sum += (w[i] - distance) * (w[i] - distance);
    return sum;
  }

  /// Trains from start to end at one rate.
  static double excess_at(double rate, uint64_t seed) {
    NoisyRegression training(rate, seed, 0);
    for (int64_t step = 1; step <= steps; ++step) training.step(step);
    return training.excess();
  }

 private:
  at::Tensor weights_ = at::zeros({inputs}, at::kDouble);
  at::Tensor velocities_ = at::zeros({inputs}, at::kDouble);
  double rate_;
  uint64_t seed_;
  uint64_t stream_;
};

}  // namespace tw::testing
