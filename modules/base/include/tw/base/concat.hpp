// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <string_view>
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

/// Joins `values` with `separator` between them. Applies `text` to each value and formats the result as concat() does.
template <class Values, class Text = std::identity>
std::string joined(const Values& values, std::string_view separator = ", ", const Text& text = {}) {
  TextWriter out;
  for (std::string_view before; const auto& each : values) out << std::exchange(before, separator) << std::invoke(text, each);
  return std::move(out).str();
}

}  // namespace tw
