// SPDX-License-Identifier: Apache-2.0
#include "flat_places.hpp"

#include <algorithm>

namespace tw::train {
namespace {

/// Consecutive elements.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

/// The elements of `slice`, a view of the elements [begin, begin + slice.tensor.numel()) of the flat tensor, that lie in `run`.
void add_part(const NamedShard& run, const NamedShard& slice, int64_t begin, std::vector<NamedShard>& all) {
  const int64_t offset = run.offsets.at(0);
  const Range both{std::max(begin, offset), std::min(begin + slice.tensor.numel(), offset + run.tensor.numel())};
  if (both.begin >= both.end) return;
  const at::Tensor elements = run.tensor.narrow(0, both.begin - offset, both.end - both.begin);
  for (NamedShard& box : slices_of_run(run.name + '/' + slice.name, slice.tensor.sizes().vec(), elements, both.begin - begin, run.kind)) {
    for (size_t d = 0; d < box.offsets.size(); ++d) box.offsets[d] += slice.offsets[d];
    box.global_shape = slice.global_shape;
    box.on_reshard = run.on_reshard;
    all.push_back(std::move(box));
  }
}

}  // namespace

std::vector<NamedShard> places_in_model(const NamedShard& run, const std::vector<OptimizedTensor>& tensors) {
  std::vector<NamedShard> all;
  int64_t begin = 0;
  for (const auto& [tensor, slices] : tensors) {
    for (const NamedShard& slice : slices) {
      const int64_t within = slice.tensor.is_same(tensor) ? 0 : slice.tensor.storage_offset() - tensor.storage_offset();
      add_part(run, slice, begin + within, all);
    }
    begin += tensor.numel();
  }
  return all;
}

}  // namespace tw::train
