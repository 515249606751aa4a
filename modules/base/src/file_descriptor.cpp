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

void FileDescriptor::sync() const {
  if (::fsync(fd_) != 0) throw FileError(path_, 0, concat("cannot be synced: ", std::strerror(errno)));
}

}  // namespace tw
