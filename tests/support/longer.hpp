// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdlib>
#include <string>

namespace tw::testing {

/// The extent of a test: set by an environment variable in long acceptance runs, otherwise the default.
inline int64_t longer(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::stoll(text) : otherwise;
}

}  // namespace tw::testing
