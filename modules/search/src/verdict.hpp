// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tw::search {

/// What becomes of a trial that reports.
enum class Verdict : uint8_t {
  go_on,
  stop,   ///< it is pruned
  pause,  ///< it goes on later, from what it carries then
};

}  // namespace tw::search
