// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

namespace tw {

/// Bytes of the memory that a FullySharded has for gathered units: of those that it keeps, and of as many others as it gathers at a time. Pure.
/// @param bytes by unit. @param prefetch_units, resident_bytes of FullyShardedOptions
int64_t room_for_units(const std::vector<int64_t>& bytes, int prefetch_units, int64_t resident_bytes);

}  // namespace tw
