// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string_view>
#include <tw/base/concat.hpp>

namespace tw {

enum class LogLevel { debug, info, warning, error };

/// Writes one line to standard error: time, level, rank, text. Thread-safe.
void log(LogLevel level, std::string_view text);

/// Drops lines below `level`. Default: info.
void set_log_level(LogLevel level);

/// For programs with their own log: passes each line (its level, and its text with the rank) to `write` instead of standard error. Only one thread at
/// a time calls `write`, which must not log or communicate. Exceptions from `write` are dropped. Pass an empty function to write to standard error
/// again. Thread-safe.
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
