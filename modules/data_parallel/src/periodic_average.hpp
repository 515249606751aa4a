// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "flat_buckets.hpp"

#include <string>
#include <tw/base/clock.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw {

/// Checks that every rank trains the same `tensors` with the same `options`, one line each. Collective.
/// @throws ContractError on every rank, naming ranks and tensor or option, if these differ or there is no tensor.
void expect_same_strategy(const Communicator& comm, const std::string& strategy, const std::vector<std::string>& options,
                          const std::vector<TensorSpec>& tensors);

/// Shared by LocalSgd and DiLoCo: counts steps, and averages values over the ranks at the end of each period.
class PeriodicAverage {
 public:
  /// Collective. @param counter the step count's name in checkpoints. @param values what is averaged, the same on all ranks, on `device`.
  PeriodicAverage(const Communicator& comm, std::string counter, std::vector<TensorSpec> values, c10::Device device, int64_t period);

  /// Counts a step. @return whether it completes a period.
  bool count_step();
  /// Whether steps were counted since the last average.
  bool steps_are_left() const;
  /// Averages over the ranks what `fill` writes, lets `take` read the means, and begins a new period. Collective.
  void average(const FlatBuckets::Visit& fill, const FlatBuckets::Visit& take);

  /// Steps since the last average; shares memory.
  NamedShard counter() const;
  /// Bytes of the persistent buffers for averages.
  int64_t buffer_bytes() const noexcept { return buckets_.bytes(); }
  /// Bytes this rank has passed to all-reduces.
  int64_t bytes_communicated() const noexcept { return bytes_communicated_; }
  Seconds exposed_time() const noexcept { return exposed_time_; }

 private:
  Communicator comm_;
  FlatBuckets buckets_;
  int64_t period_;
  NamedShard steps_;
  int64_t bytes_communicated_ = 0;
  Seconds exposed_time_{0};
};

}  // namespace tw
