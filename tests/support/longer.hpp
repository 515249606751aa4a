// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdlib>
#include <string>

namespace tw::testing {

/// How far a test goes: what the environment says, in the long acceptance runs of the same test.
inline int64_t longer(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::stoll(text) : otherwise;
}

}  // namespace tw::testing
