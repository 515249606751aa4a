// SPDX-License-Identifier: Apache-2.0
// The sizes of a graph's value for a number of rows.
#pragma once
#include <cstdint>
#include <tw/graph/graph.hpp>
#include <vector>

namespace tw::splits {

inline std::vector<int64_t> sizes_of(const graph::Value& value, int64_t rows) {
  std::vector<int64_t> sizes;
  for (const graph::Size& each : value.sizes) sizes.push_back(each.of(rows));
  return sizes;
}

inline double bytes_of(const graph::Value& value, int64_t rows) {
  auto bytes = static_cast<double>(c10::elementSize(value.dtype));
  for (const graph::Size& each : value.sizes) bytes *= static_cast<double>(each.of(rows));
  return bytes;
}

}  // namespace tw::splits
