// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tw::search {

/// What a trial does after a report.
enum class Verdict : uint8_t {
  go_on,
  stop,   ///< it is pruned
  pause,  ///< it resumes later, from its stored tensors
};

}  // namespace tw::search
