// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data_parallel/data_parallel.hpp>

#include "strategies.hpp"

namespace tw::train {

/// The ranks reduce gradients in every update.
class SynchronousReplicas : public Strategy {
 public:
  SynchronousReplicas(const StrategySetup& setup, const ReducerOptions& options);

  void accumulate(const MicroBatchShare& share, const std::function<void(double weight)>& pass) override;
  void raise(Signal word) override { parallel_.vote(static_cast<int>(word)); }
  std::vector<int64_t> arrival_order() const override { return parallel_.reducer().arrival_order(); }
  Seconds exposed_time() const override { return parallel_.exposed_time(); }
  int64_t payload_bytes() const override { return parallel_.reducer().payload_bytes(); }

 protected:
  /// @param sharers of the parameters
  void account_reduced(KnownMemory& known, int sharers = 1) const;
  Outcome outcome(double loss_scale) const;
  const Model& model() const noexcept { return model_; }
  DataParallel& parallel() noexcept { return parallel_; }

 private:
  const Communicator* parts_;
  const Model& model_;
  DataParallel parallel_;
};

/// The reducer options that all these strategies share.
ReducerOptions reducer_options(const StrategySetup& setup);

}  // namespace tw::train
