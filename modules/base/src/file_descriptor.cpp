// SPDX-License-Identifier: Apache-2.0
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file_descriptor.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tw {

FileDescriptor::FileDescriptor(std::filesystem::path path, int flags, const char* problem)
    : path_(std::move(path)), fd_(::open(path_.c_str(), flags | O_CLOEXEC, 0666)) {
  if (fd_ < 0) throw FileError(path_, 0, concat(problem, ": ", std::strerror(errno)));
}

FileDescriptor::~FileDescriptor() { ::close(fd_); }

void FileDescriptor::write(const void* data, size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::write(fd_, from, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw FileError(path_, written_, concat("cannot be written: ", std::strerror(count == 0 ? ENOSPC : errno)));
    from += count;
    bytes -= static_cast<size_t>(count);
    written_ += count;
  }
}

void FileDescriptor::sync() const {
  if (::fsync(fd_) != 0) throw FileError(path_, 0, concat("cannot be synced: ", std::strerror(errno)));
}

}  // namespace tw
