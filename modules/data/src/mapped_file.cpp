// SPDX-License-Identifier: Apache-2.0
#include "mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file_descriptor.hpp>
#include <utility>

namespace tw {

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

}  // namespace tw
