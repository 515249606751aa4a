// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string_view>
#include <tw/base/concat.hpp>

namespace tw {

enum class LogLevel { debug, info, warning, error };

/// Writes one line to standard error: time, rank, level, text. Thread-safe.
void log(LogLevel level, std::string_view text);

/// Drops lines below `level`. Default: info.
void set_log_level(LogLevel level);

/// Passes lines to `write` instead of standard error: level, and text with the rank. For programs with a log of their own. `write` is called by one
/// thread at a time, must not log or communicate, and what it throws is dropped. Empty: standard error again. Thread-safe.
void set_log_function(std::function<void(LogLevel level, std::string_view line)> write);

template <class... Parts>
void log_info(const Parts&... parts) {
  log(LogLevel::info, concat(parts...));
}
template <class... Parts>
void log_warning(const Parts&... parts) {
  log(LogLevel::warning, concat(parts...));
}
template <class... Parts>
void log_error(const Parts&... parts) {
  log(LogLevel::error, concat(parts...));
}

}  // namespace tw
