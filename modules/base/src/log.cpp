// SPDX-License-Identifier: Apache-2.0
#include <tw/base/log.hpp>
#include <tw/base/process.hpp>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace tw {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::off;
}

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = std::make_shared<spdlog::logger>("torchweave", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%H:%M:%S.%e %l: %v");
    return made;
  }();
  return *instance;
}

}  // namespace

void log(LogLevel level, std::string_view text) {
  const int rank = process_rank();
  if (rank < 0) {
    logger().log(to_spdlog(level), "{}", text);
  } else {
    logger().log(to_spdlog(level), "[rank {}] {}", rank, text);
  }
}

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

}  // namespace tw
