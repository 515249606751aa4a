// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/cluster.hpp>

#include <tw/base/contract.hpp>

namespace tw::pipeline {

void Link::validate(const char* name) const {
  TW_EXPECTS(latency_s >= 0, name, ".latency_s must be at least 0, is ", latency_s);
  TW_EXPECTS(bytes_per_second > 0, name, ".bytes_per_second must be positive, is ", bytes_per_second);
}

double ring_all_reduce(int replicas, double bytes, const Link& link) noexcept {
  return replicas <= 1 ? 0 : 2.0 * (replicas - 1) * link.transfer(bytes / replicas);
}

void Cluster::validate() const {
  TW_EXPECTS(devices >= 1, "devices must be at least 1, are ", devices);
  TW_EXPECTS(memory_bytes > 0, "memory_bytes must be positive, is ", memory_bytes);
  between_stages.validate("between_stages");
  within_stage.validate("within_stage");
}

void ParameterMemory::validate() const {
  TW_EXPECTS(weights >= 0 && gradients >= 0 && optimizer >= 0, "weights, gradients and optimizer must be at least 0, are ", weights, ", ", gradients,
             " and ", optimizer);
}

}  // namespace tw::pipeline
