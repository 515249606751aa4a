// SPDX-License-Identifier: Apache-2.0
// The capacity of devices and of the links between them. Value types.
#pragma once
#include <cstdint>
#include <limits>
#include <tw/base/option.hpp>

namespace tw::pipeline {

/// A full-duplex link: it transfers b bytes in latency_s + b / bytes_per_second seconds.
struct Link {
  double latency_s = 0;
  double bytes_per_second = std::numeric_limits<double>::infinity();

  double transfer(double bytes) const noexcept { return latency_s + bytes / bytes_per_second; }
};
void visit(Link& link, OptionVisitor& visitor);

/// Seconds that a ring all-reduce of `bytes` takes over n replicas; 0 for one replica. The formula is
///   2 * (n - 1) * (latency_s + bytes / (n * bytes_per_second)).
/// Ref: Patarasuk & Yuan 2009, ring all-reduce.
double ring_all_reduce(int replicas, double bytes, const Link& link) noexcept;

/// A cluster of equal devices.
struct Cluster {
  int devices = 1;
  double memory_bytes = std::numeric_limits<double>::infinity();  ///< memory of each device
  Link between_stages = {};                                       ///< link for activations and their cotangents
  Link within_stage = {};                                         ///< link for the all-reduce among replicas
  /// Whether gradient buckets are reduced during a stage's last backward pass in a step; otherwise after that pass.
  bool overlapped_all_reduce = true;

  /// @throws ContractError naming the wrong field
  void validate() const;
};
void visit(Cluster& cluster, OptionVisitor& visitor);

/// Bytes of memory per byte of parameters in the profile. The default is Adam in float32: 4 + 4 + 8 bytes per 4-byte parameter. For mixed
/// precision with 2-byte parameters, use 1, 1 and 6: the optimizer's 12 bytes include a float32 copy of the parameter.
struct ParameterMemory {
  double weights = 1;
  double gradients = 1;
  double optimizer = 2;
  bool sharded_optimizer = false;  ///< whether each of n replicas keeps only 1/n of the optimizer state (ZeRO-1)
};
void visit(ParameterMemory& memory, OptionVisitor& visitor);

}  // namespace tw::pipeline
