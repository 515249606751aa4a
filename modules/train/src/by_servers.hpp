// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/parameter_server/worker.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <tw/train/strategy_options.hpp>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace tw::train {

/// Told when an exchange with the servers began and ended.
using OnExchange = std::function<void(std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end)>;

/// Ranks that train alone, by way of servers, and meet at finish() only.
class ByServers {
 public:
  struct Options {
    const StrategyOptions& strategy;
    OnExchange on_exchange;
  };

  /// Collective. @throws ContractError for an algorithm that `optimizer` does not fit
  ByServers(const Communicator& comm, const std::vector<NamedTensor>& tensors, const torch::optim::Optimizer& optimizer, const Options& options);

  /// Between the backward pass and the optimizer's step.
  void average();
  /// Behind the optimizer's step. @return false: the ranks have not met
  bool step();
  void finish();
  std::vector<NamedShard> shards() const { return worker_->shards("servers"); }
  /// Takes what is among `all`. Collective.
  void restore(const std::vector<NamedShard>& all);
  Seconds exposed_time() const noexcept { return exposed_; }
  int64_t bytes_communicated() const noexcept;
  const parameter_server::Traffic& traffic() const noexcept { return worker_->traffic(); }

 private:
  void exchange();

  bool averages_gradients_;
  std::unique_ptr<parameter_server::Worker> worker_;
  int64_t bytes_ = 0;  // of the parameters
  OnExchange on_exchange_;
  Seconds exposed_{0};
};

}  // namespace tw::train
