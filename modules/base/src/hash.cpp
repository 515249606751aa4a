// SPDX-License-Identifier: Apache-2.0
#include <tw/base/hash.hpp>

#include <xxhash.h>

namespace tw {

uint64_t content_hash(std::string_view bytes) noexcept { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace tw
