// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "flat_buckets.hpp"

#include <string>
#include <tw/base/clock.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw {

/// Checks that every rank trains the same `tensors` by the same `options`, one line each. Collective.
/// @throws ContractError on every rank, naming ranks and tensor or option, when these differ, and when there is no tensor.
void expect_same_strategy(const Communicator& comm, const std::string& strategy, const std::vector<std::string>& options,
                          const std::vector<TensorSpec>& tensors);

/// What LocalSgd and DiLoCo share: counts steps, and averages values over the ranks when a period is over.
class PeriodicAverage {
 public:
  /// Collective. @param counter the name of the count of steps, in checkpoints. @param values what is averaged, the same on all ranks, on `device`.
  PeriodicAverage(const Communicator& comm, std::string counter, std::vector<TensorSpec> values, c10::Device device, int64_t period);

  /// Counts a step. Whether that makes a period.
  bool count_step();
  /// Whether steps were counted since the last average.
  bool steps_are_left() const;
  /// Gives `take` the means over the ranks of what `fill` gave, and begins a new period. Collective.
  void average(const FlatBuckets::Visit& fill, const FlatBuckets::Visit& take);

  /// The steps since the last average; shares memory.
  NamedShard counter() const;
  /// Of the room that stays for averages.
  int64_t buffer_bytes() const noexcept { return buckets_.bytes(); }
  /// What this rank has given to all-reduces.
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
