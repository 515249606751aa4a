// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/data_parallel/fully_sharded.hpp>

namespace tw {

void visit(FullyShardedOptions& options, OptionVisitor& visitor) {
  visitor.field("unit_bytes", options.unit_bytes, {.least = 1}, {.meaning = "bytes of parameters gathered and released together", .unit = "bytes"});
  visitor.field("units", options.units, {.meaning = "names of submodules whose parameters form separate units"});
  visitor.field("prefetch_units", options.prefetch_units, at_least(0), {.meaning = "units gathered ahead of their use"});
  visitor.field("resident_bytes", options.resident_bytes, {.least = 0},
                {.meaning = "bytes of units that stay gathered between updates", .unit = "bytes"});
  visitor.field("one_copy_per_node", options.one_copy_per_node, {.meaning = "one copy of the parameters for all ranks of a node"});
  const std::vector<std::pair<std::string, c10::ScalarType>> dtypes{{"bfloat16", at::kBFloat16}, {"float16", at::kHalf}, {"float32", at::kFloat}};
  visitor.field("compute_dtype", options.compute_dtype, dtypes, About{.meaning = "dtype of gathered parameters"});
  visitor.field("check_finite", options.check_finite, {.meaning = "check whether reduced gradients are finite"});
}
void FullyShardedOptions::validate() const {
  expect_chosen(reduction);
  expect_none(out_of_bounds(*this));
  TW_EXPECTS(!one_copy_per_node || !compute_dtype, "one_copy_per_node keeps parameters in their own dtype: compute_dtype must be unset");
}

}  // namespace tw
