// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
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

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  const auto fail = [&](const char* what) { throw FileError(path_, 0, concat(what, ": ", std::strerror(errno))); };
  const FileDescriptor file(path_, O_RDONLY, "cannot be opened");  // the mapping outlives it
  struct stat status{};
  if (fstat(file.get(), &status) != 0) fail("cannot be read");
  if (!S_ISREG(status.st_mode)) throw FileError(path_, 0, "is not an ordinary file");
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;  // nothing to map
  void* mapped = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) fail("cannot be mapped into memory");
  data_ = static_cast<const char*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

std::string read_file(const std::filesystem::path& path, int64_t most) {
  constexpr size_t chunk_bytes = size_t{1} << 16;
  const FileDescriptor file(path, O_RDONLY, "cannot be opened");
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) throw FileError(path, 0, concat("cannot be examined: ", std::strerror(errno)));
  if (S_ISDIR(info.st_mode)) throw FileError(path, 0, "is a folder, not a file");
  const auto expect_small = [&](int64_t bytes) {
    if (bytes > most) throw FileError(path, 0, concat("has ", bytes, " bytes, more than ", most));
  };
  expect_small(info.st_size);
  std::string content;
  content.reserve(static_cast<size_t>(info.st_size));
  while (true) {  // until the end of the file: a pipe has no size
    const size_t at = content.size();
    content.resize(std::max(at + 1, std::min(content.capacity(), at + chunk_bytes)));
    const ssize_t got = ::read(file.get(), content.data() + at, content.size() - at);
    const int code = errno;
    content.resize(at + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && code == EINTR) continue;
    if (got < 0) throw FileError(path, static_cast<int64_t>(at), concat("cannot be read: ", std::strerror(code)));
    if (got == 0) return content;
    expect_small(static_cast<int64_t>(content.size()));
  }
}

}  // namespace tw
