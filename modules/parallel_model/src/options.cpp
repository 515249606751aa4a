// SPDX-License-Identifier: Apache-2.0
#include <tw/parallel_model/options.hpp>

namespace tw {

void visit(ParallelOptions& options, OptionVisitor& visitor) {
  visitor.field("micro_batches", options.micro_batches, at_least(1),
                {.meaning = "micro-batches of a rank's batch, which pass through the model one after the other"});
  const std::vector<std::pair<std::string, ReplicaSync>> replicas{{"every_step", ReplicaSync::every_step}, {"independent", ReplicaSync::independent}};
  visitor.field("replicas", options.replicas, replicas,
                About{.meaning = "whether ranks along data sum gradients in every update, or train independently"});
  visitor.field("compute", options.compute, compute_type_names(), About{.meaning = "dtype of passes; parameters and the optimizer stay float32"});
  visitor.field("schedule", options.schedule, pipeline::schedule_names(),
                About{.meaning = "order of the passes along stage; unset: the planner's choice"});
  visitor.field("recompute", options.recompute, pipeline::recompute_names(), About{.meaning = "recomputation in stages"});
  visitor.field("split_goal", options.split_goal, splits::split_goal_names(), About{.meaning = "aim of dividing operators along tensor"});
  visitor.field("unit_bytes", options.unit_bytes, at_least(1), {.meaning = "largest size of a unit along shard", .unit = "bytes"});
  visitor.field("prefetch_units", options.prefetch_units, at_least(0), {.meaning = "units gathered ahead of their use"});
  visitor.field("resident_bytes", options.resident_bytes, {.least = 0},
                {.meaning = "bytes of units that stay gathered between updates", .unit = "bytes"});
  visitor.field("one_copy_per_node", options.one_copy_per_node, {.meaning = "one copy of the parameters for all ranks of a node"});
  visitor.presence("compressor", options.compressor != nullptr);
}

void ParallelOptions::validate() const { expect_none(out_of_bounds(*this)); }

}  // namespace tw
