// SPDX-License-Identifier: Apache-2.0
#include <tw/train/shard_options.hpp>

namespace tw::train {

void visit(ShardOptions& options, OptionVisitor& visitor) {
  const std::vector<std::pair<std::string, Sharded>> kinds{
      {"optimizer", Sharded::optimizer}, {"gradients", Sharded::gradients}, {"parameters", Sharded::parameters}};
  const Condition sharded{"mesh.shard", {"1"}, /*negated=*/true};
  const Condition parameters{"shard.what", {"parameters"}};
  visitor.field("what", options.what, kinds,
                {.meaning = "what is divided along `mesh.shard`: the optimizer's state (ZeRO 1), gradients too (ZeRO 2), or parameters too (ZeRO 3)",
                 .applies_if = {sharded}});
  visitor.field("one_copy_per_node", options.one_copy_per_node,
                {.meaning = "one copy of the parameters for all ranks of a node", .applies_if = {sharded}});
  visitor.field("unit_bytes", options.unit_bytes, {.least = 1},
                {.meaning = "bytes of parameters gathered and released together", .unit = "bytes", .applies_if = {sharded, parameters}});
  visitor.field("prefetch_units", options.prefetch_units, at_least(0),
                {.meaning = "units gathered ahead of their use", .applies_if = {sharded, parameters}});
  visitor.field("resident_bytes", options.resident_bytes, {.least = 0},
                {.meaning = "bytes of units that stay gathered between updates", .unit = "bytes", .applies_if = {sharded, parameters}});
}

}  // namespace tw::train
