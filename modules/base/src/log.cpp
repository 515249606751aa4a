// SPDX-License-Identifier: Apache-2.0
#include <tw/base/log.hpp>
#include <tw/base/process.hpp>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <mutex>

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

LogLevel from_spdlog(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::debug: return LogLevel::debug;
    case spdlog::level::info: return LogLevel::info;
    case spdlog::level::warn: return LogLevel::warning;
    default: return LogLevel::error;
  }
}

using LogFunction = std::function<void(LogLevel, std::string_view)>;

/// Standard error, or the program's function. The base class locks.
class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void set_function(LogFunction write) {
    const std::lock_guard lock(mutex_);
    write_ = std::move(write);
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (write_) {
      write_(from_spdlog(message.level), {message.payload.data(), message.payload.size()});
    } else {
      standard_error_.log(message);
    }
  }
  void flush_() override { standard_error_.flush(); }
  void set_pattern_(const std::string& pattern) override { standard_error_.set_pattern(pattern); }

  spdlog::sinks::stderr_sink_st standard_error_;
  LogFunction write_;
};

const std::shared_ptr<Sink>& sink() {
  static const auto instance = std::make_shared<Sink>();
  return instance;
}

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = std::make_shared<spdlog::logger>("torchweave", sink());
    made->sinks().front()->set_pattern("%H:%M:%S.%e %l: %v");
    made->set_error_handler([](const std::string&) {});
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

void set_log_function(std::function<void(LogLevel, std::string_view)> write) { sink()->set_function(std::move(write)); }

}  // namespace tw
