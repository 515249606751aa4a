// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

namespace tw {

/// Bytes of the buffers of a FullySharded for gathered units: the units that stay gathered, and at most 1 + max(prefetch_units, 1) buffers, each as
/// large as the largest other unit. Pure.
/// @param bytes size of each unit. @param prefetch_units, resident_bytes see FullyShardedOptions
int64_t buffer_bytes_for_units(const std::vector<int64_t>& bytes, int prefetch_units, int64_t resident_bytes);

}  // namespace tw
