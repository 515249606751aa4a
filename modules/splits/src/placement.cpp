// SPDX-License-Identifier: Apache-2.0
#include <tw/splits/placement.hpp>

#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>

namespace tw::splits {

std::string to_text(const Placement& placement) {
  if (placement.is_whole()) return "whole";
  if (placement.is_partial()) return "partial";
  return concat("split(", placement.dimension, ')', placement.groups == 1 ? "" : concat(" in ", placement.groups, " groups"));
}

at::Tensor part_of(const at::Tensor& whole, const Placement& placement, int rank, int ranks) {
  TW_EXPECTS(placement.is_split() && placement.dimension < whole.dim() && can_divide(whole.size(placement.dimension), placement.groups, ranks),
             "a tensor of shape ", whole.sizes(), " cannot be ", to_text(placement), " over ", ranks, " ranks");
  const int64_t size = whole.size(placement.dimension);
  if (placement.groups == 1) return whole.narrow(placement.dimension, rank * (size / ranks), size / ranks);
  const int64_t of_group = size / placement.groups;
  return whole.unflatten(placement.dimension, {placement.groups, of_group})
      .narrow(placement.dimension + 1, rank * (of_group / ranks), of_group / ranks)
      .flatten(placement.dimension, placement.dimension + 1);
}

}  // namespace tw::splits
