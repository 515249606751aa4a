// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string_view>

namespace tw {

/// 64-bit XXH3 of `bytes`: equal on every machine of the same byte order. Not cryptographic.
uint64_t content_hash(std::string_view bytes) noexcept;

}  // namespace tw
