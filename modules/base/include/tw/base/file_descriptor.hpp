// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace tw {

/// A file or folder that is open; it closes itself.
class FileDescriptor {
 public:
  /// @param flags of open(2), to which O_CLOEXEC is added. @param problem for the message: "cannot be opened".
  /// @throws FileError with the system's reason.
  FileDescriptor(std::filesystem::path path, int flags, const char* problem);
  ~FileDescriptor();
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int get() const noexcept { return fd_; }
  /// Writes all of `data` where the last write ended. @throws FileError with the system's reason and the offset.
  void write(const void* data, size_t bytes);
  /// Returns when the content is on the disk itself. @throws FileError
  void sync() const;

 private:
  std::filesystem::path path_;
  int fd_;
  int64_t written_ = 0;
};

}  // namespace tw
