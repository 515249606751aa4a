// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <tw/parameter_server/sharded_tensor.hpp>
#include <vector>

namespace tw::parameter_server {

/// The number of pushes of each worker, and which workers have left: a small sharded tensor on one server.
class Clocks {
 public:
  struct Reading {
    std::vector<int64_t> ticks;  // by worker
    std::vector<bool> left;

    int64_t sum_without(int worker) const;
    /// The lowest clock; workers that have left count as infinite.
    int64_t slowest() const;
  };

  /// Collective over the servers and first ranks of workers. @param worker the worker that this rank leads; -1: none
  Clocks(const Communicator& comm, int workers, int worker, int server, bool share_memory);

  void tick();
  /// Other workers no longer wait for this one, until restart().
  void leave();
  /// Restarts at 0.
  void restart();
  /// Starts reading.
  ShardedTensor::Prefetched ask() const { return values_.prefetch(); }
  /// Collective, see ShardedTensor.
  void finish() { values_.finish(); }
  static Reading read(ShardedTensor::Prefetched asked);

 private:
  void add(double amount);

  ShardedTensor values_;  // 1 + ticks; negative: the worker has left
  int workers_;
  int worker_;
  int64_t ticks_ = 0;
  bool left_ = false;
  ShardedTensor::Handle pushed_;
};

}  // namespace tw::parameter_server
