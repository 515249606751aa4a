// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/cluster.hpp>

namespace tw::pipeline {

void visit(Link& link, OptionVisitor& visitor) {
  visitor.field("latency_s", link.latency_s, {.least = 0}, {.meaning = "latency of a message", .unit = "s"});
  visitor.field("bytes_per_second", link.bytes_per_second, {.least = 0, .excludes_least = true},
                {.meaning = "bandwidth in each direction", .unit = "bytes/s"});
}

double ring_all_reduce(int replicas, double bytes, const Link& link) noexcept {
  return replicas <= 1 ? 0 : 2.0 * (replicas - 1) * link.transfer(bytes / replicas);
}

void visit(Cluster& cluster, OptionVisitor& visitor) {
  visitor.field("devices", cluster.devices, at_least(1), {.meaning = "number of devices, all of them equal"});
  visitor.field("memory_bytes", cluster.memory_bytes, {.least = 0, .excludes_least = true}, {.meaning = "memory of each device", .unit = "bytes"});
  visitor.group("between_stages", cluster.between_stages);
  visitor.group("within_stage", cluster.within_stage);
  visitor.field("overlapped_all_reduce", cluster.overlapped_all_reduce, {.meaning = "reduce gradients during the last backward pass of a stage"});
}

void Cluster::validate() const { expect_none(out_of_bounds(*this)); }

void visit(ParameterMemory& memory, OptionVisitor& visitor) {
  visitor.field("weights", memory.weights, {.least = 0}, {.meaning = "memory of weights for each byte of a parameter", .unit = "bytes"});
  visitor.field("gradients", memory.gradients, {.least = 0}, {.meaning = "memory of gradients for each byte of a parameter", .unit = "bytes"});
  visitor.field("optimizer", memory.optimizer, {.least = 0}, {.meaning = "memory of optimizer state for each byte of a parameter", .unit = "bytes"});
  visitor.field("sharded_optimizer", memory.sharded_optimizer, {.meaning = "whether each of n replicas has 1/n of the optimizer's state (ZeRO 1)"});
}

}  // namespace tw::pipeline
