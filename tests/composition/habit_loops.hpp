// SPDX-License-Identifier: Apache-2.0
// What users of LibTorch do around a model, as loops that run plain and wrapped alike.
#pragma once
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <tw/data_parallel.hpp>
#include <tw/gradients/sharded_optimizer.hpp>
#include <vector>

namespace tw::testing::habits {

/// Two layers, of which the first one has a bias, in float64. Every rank of a wrapped loop has 3 rows of its own; the plain one has all.
struct NetImpl : torch::nn::Cloneable<NetImpl> {
  NetImpl() { reset(); }
  void reset() override {
    first = register_module("first", torch::nn::Linear(4, 6));
    last = register_module("last", torch::nn::Linear(torch::nn::LinearOptions(6, 2).bias(false)));
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) {
    if (throws) throw std::runtime_error("mine");
    return last(torch::tanh(first(x)));
  }
  torch::nn::Linear first{nullptr}, last{nullptr};
  bool throws = false;
};

/// A loop of training. What is null is not there.
class Loop {
 public:
  virtual ~Loop() = default;

  std::shared_ptr<NetImpl> net = [] {
    torch::manual_seed(11);
    return std::make_shared<NetImpl>();
  }();
  std::shared_ptr<torch::optim::Optimizer> optimizer;  ///< LibTorch's
  std::vector<at::Tensor> updated;                     ///< what it is made over
  std::function<void()> after_step = [] {};

  /// The mean over this loop's rows of a step.
  virtual at::Tensor loss(int64_t step = 0) { return loss_of(samples(step)); }
  at::Tensor loss_of(const at::Tensor& x) const { return (net->forward(x) - x.narrow(1, 0, 2)).square().mean(); }
  virtual at::Tensor samples(int64_t step) const { return all_samples(step); }
  virtual void step() {
    optimizer->step();
    after_step();
  }
  virtual void zero_grad() { optimizer->zero_grad(); }
  /// The loss that all ranks know.
  virtual at::Tensor reduced(const at::Tensor& loss) const { return loss.detach(); }
  virtual void finish() {}

  static at::Tensor all_samples(int64_t step) {
    torch::manual_seed(static_cast<uint64_t>(100 + step));
    return torch::randn({3 * world().size(), 4}, torch::kDouble);
  }
};

inline std::shared_ptr<torch::optim::Optimizer> make_sgd(const std::vector<at::Tensor>& tensors) {
  return std::make_shared<torch::optim::SGD>(tensors, 0.1);
}

struct PlainLoop : Loop {
  PlainLoop() {
    updated = net->parameters();
    optimizer = make_sgd(updated);
  }
};

/// With this rank's rows.
struct RanksLoop : Loop {
  at::Tensor samples(int64_t step) const override { return all_samples(step).narrow(0, 3 * world().rank(), 3); }
  at::Tensor reduced(const at::Tensor& loss) const override { return tw::reduced(world(), loss, Reduction::mean); }
};

struct DataParallelLoop : RanksLoop {
  DataParallelLoop() {
    updated = net->parameters();
    optimizer = make_sgd(updated);
  }
  DataParallel parallel{world(), *net, {.reduction = Reduction::mean}};
};

struct ShardedOptimizerLoop : RanksLoop {
  void step() override { sharded.step(); }
  void zero_grad() override { sharded.zero_grad(); }
  DataParallel parallel{world(), *net, {.reduction = Reduction::mean, .sharding = Sharding::slices}};
  ShardedOptimizer sharded{parallel.reducer(), parallel.parameters(), [](const std::vector<NamedTensor>& shards) {
                             std::vector<at::Tensor> tensors;
                             for (const NamedTensor& each : shards) tensors.push_back(each.tensor);
                             return std::make_unique<torch::optim::SGD>(tensors, 0.1);
                           }};
};

struct FullyShardedLoop : RanksLoop {
  FullyShardedLoop() {
    updated = sharded.slices();
    optimizer = make_sgd(updated);
  }
  FullySharded sharded{world(), *net, {.reduction = Reduction::mean, .unit_bytes = 1}};
};

/// With a period of one step, plain SGD and the mean of models are the mean of gradients.
struct LocalSgdLoop : RanksLoop {
  LocalSgdLoop() {
    updated = net->parameters();
    optimizer = make_sgd(updated);
    after_step = [this] { local.step(); };
  }
  LocalSgd local{world(), *net, {.period = 1}};
};

struct DiLoCoLoop : RanksLoop {
  DiLoCoLoop() {
    updated = net->parameters();
    optimizer = make_sgd(updated);
    after_step = [this] { outer.step(); };
  }
  DiLoCo outer{world(), *net, {.period = 1, .outer_learning_rate = 1, .outer_momentum = 0, .nesterov = false}};
};

}  // namespace tw::testing::habits
