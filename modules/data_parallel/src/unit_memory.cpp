// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tw/data_parallel/unit_memory.hpp>

#include "unit_order.hpp"

namespace tw {

int64_t buffer_bytes_for_units(const std::vector<int64_t>& bytes, int prefetch_units, int64_t resident_bytes) {
  const std::vector<bool> kept = kept_units(bytes, static_cast<size_t>(prefetch_units), resident_bytes);
  int64_t room = 0;
  int64_t largest = 0;
  int64_t others = 0;
  for (size_t unit = 0; unit < bytes.size(); ++unit) {
    if (kept[unit]) {
      room += bytes[unit];
    } else {
      largest = std::max(largest, bytes[unit]);
      ++others;
    }
  }
  return room + std::min<int64_t>(others, 1 + std::max(prefetch_units, 1)) * largest;
}

}  // namespace tw
