// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <numeric>
#include <tw/data/dataset.hpp>
#include <vector>

namespace tw::testing {

/// The first `count` samples of `data`, as one batch.
inline Batch first_samples(const Dataset& data, int64_t count) {
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return data.batch(indices);
}

}  // namespace tw::testing
