// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sstream>
#include <string>

namespace tw {

/// Writes all `parts` one after the other, as `operator<<` shows them. For messages, not for hot paths.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace tw
