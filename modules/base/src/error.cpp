// SPDX-License-Identifier: Apache-2.0
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

namespace tw {
namespace {

thread_local std::string last_message;

}  // namespace

Error::Error(const std::string& message) : std::runtime_error(message) { last_message = message; }

FileError::FileError(std::filesystem::path path, int64_t offset, const std::string& problem)
    : Error(concat(path.string(), " at byte ", offset, ": ", problem)), path_(std::move(path)), offset_(offset) {}

ConfigError::ConfigError(std::vector<std::string> problems)
    : Error("the configuration is wrong:\n  " + joined(problems, "\n  ")), problems_(std::move(problems)) {}

ContractError::ContractError(const std::string& message) : std::logic_error(message) { last_message = message; }

const std::string& last_error_message() noexcept { return last_message; }

}  // namespace tw
