// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <tw/version.hpp>
#include <vector>

namespace tw {

/// Base class of errors with causes outside the code: files, configuration, MPI. A program can catch them and continue.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);
};

/// A file is missing, unreadable or malformed. The message names the file and the byte offset.
class FileError : public Error {
 public:
  FileError(std::filesystem::path path, int64_t offset, const std::string& problem);
  const std::filesystem::path& path() const noexcept { return path_; }
  /// Where the problem was found, in bytes from the start of the (uncompressed) content.
  int64_t offset() const noexcept { return offset_; }

 private:
  std::filesystem::path path_;
  int64_t offset_;
};

/// A configuration is wrong. The message lists all problems, one per line.
class ConfigError : public Error {
 public:
  explicit ConfigError(std::vector<std::string> problems);
  const std::vector<std::string>& problems() const noexcept { return problems_; }

 private:
  std::vector<std::string> problems_;
};

/// A bug, either in the caller (found by TW_EXPECTS) or in Torchweave (found by TW_ASSERT). The message names the rank and the source location.
class ContractError : public std::logic_error {
 public:
  explicit ContractError(const std::string& message);
};

/// The message of the last `Error` or `ContractError` constructed on this thread, or "". ~Environment() shows it if an exception leaves the scope of
/// the `Environment`, because C++ does not reveal the message of an exception before it is caught.
const std::string& last_error_message() noexcept;

}  // namespace tw
