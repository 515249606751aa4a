// SPDX-License-Identifier: Apache-2.0
#include "clocks.hpp"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>
#include <utility>

namespace tw::parameter_server {

Clocks::Clocks(const Communicator& comm, int workers, int worker, int server, bool share_memory)
    : values_(comm, at::ones({workers}, at::kDouble), {.servers = {server}, .share_memory = share_memory}), workers_(workers), worker_(worker) {}

void Clocks::add(double amount) {
  const at::Tensor amounts = at::zeros({workers_}, at::kDouble);
  amounts[worker_] = amount;
  pushed_ = values_.push(amounts, "add");
}

void Clocks::tick() {
  ++ticks_;
  add(1);
}

void Clocks::leave() {
  left_ = true;
  add(-2.0 * static_cast<double>(1 + ticks_));
}

void Clocks::restart() {
  add(1.0 - static_cast<double>(left_ ? -(1 + ticks_) : 1 + ticks_));
  ticks_ = 0;
  left_ = false;
}

Clocks::Reading Clocks::read(ShardedTensor::Prefetched asked) {
  const at::Tensor values = asked.take();
  Reading reading;
  for (const double each : std::vector<double>(values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel())) {
    reading.ticks.push_back(std::llround(std::abs(each)) - 1);
    reading.left.push_back(each < 0);
  }
  return reading;
}

int64_t Clocks::Reading::sum_without(int worker) const {
  int64_t sum = 0;
  for (size_t i = 0; i < ticks.size(); ++i) sum += static_cast<int>(i) == worker ? 0 : ticks[i];
  return sum;
}

int64_t Clocks::Reading::slowest() const {
  int64_t slowest = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < ticks.size(); ++i) slowest = left[i] ? slowest : std::min(slowest, ticks[i]);
  return slowest;
}

}  // namespace tw::parameter_server
