// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

namespace tw {

/// Bytes of memory that a FullySharded uses for gathered units: the resident units, and those of the others that are gathered at the same time. Pure.
/// @param bytes size of each unit. @param prefetch_units, resident_bytes see FullyShardedOptions
int64_t buffer_bytes_for_units(const std::vector<int64_t>& bytes, int prefetch_units, int64_t resident_bytes);

}  // namespace tw
