// SPDX-License-Identifier: Apache-2.0
// What devices and the links between them can do. Values.
#pragma once
#include <cstdint>
#include <limits>
#include <tw/base/option.hpp>

namespace tw::pipeline {

/// Carries b bytes in latency_s + b / bytes_per_second; both directions at once.
struct Link {
  double latency_s = 0;
  double bytes_per_second = std::numeric_limits<double>::infinity();

  double transfer(double bytes) const noexcept { return latency_s + bytes / bytes_per_second; }
};
void visit(Link& link, OptionVisitor& visitor);

/// Of the gradients of n replicas in a ring: 2 (n - 1) (latency + bytes / (n bandwidth)) seconds; 0 for one.
/// Ref: Patarasuk & Yuan 2009, ring all-reduce.
double ring_all_reduce(int replicas, double bytes, const Link& link) noexcept;

/// Equal devices. (Several classes of devices would each have a count and a memory of their own, and links between classes.)
struct Cluster {
  int devices = 1;
  double memory_bytes = std::numeric_limits<double>::infinity();  ///< of each
  Link between_stages = {};                                       ///< for activations and their cotangents
  Link within_stage = {};                                         ///< for the all-reduce of replicas
  /// Buckets of gradients are reduced while the last backward pass of a stage goes on; otherwise when it has ended.
  bool overlapped_all_reduce = true;

  /// @throws ContractError naming the wrong field
  void validate() const;
};
void visit(Cluster& cluster, OptionVisitor& visitor);

/// Bytes for each byte of a parameter as the profile has it. The default is Adam in float32: 4 + 4 + 8 bytes a parameter of 4. In mixed precision, a
/// profile in 2 bytes a parameter has 1, 1 and 6: the optimizer keeps a copy in float32 too.
struct ParameterMemory {
  double weights = 1;
  double gradients = 1;
  double optimizer = 2;
  bool sharded_optimizer = false;  ///< each of n replicas has 1/n of the optimizer's state (ZeRO-1)
};
void visit(ParameterMemory& memory, OptionVisitor& visitor);

}  // namespace tw::pipeline
