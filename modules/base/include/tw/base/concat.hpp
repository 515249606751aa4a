// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/base/text_stream.hpp>
#include <utility>

namespace tw {

/// Concatenates all `parts`, as `operator<<` formats them in the classic locale. For messages, not for hot paths.
template <class... Parts>
std::string concat(const Parts&... parts) {
  TextWriter out;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace tw
