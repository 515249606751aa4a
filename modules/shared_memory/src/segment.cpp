// SPDX-License-Identifier: Apache-2.0
#include <tw/shared_memory/segment.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <utility>

namespace tw::shared_memory {
namespace {

[[noreturn]] void fail(const char* call, int64_t bytes) {
  const std::string reason = std::generic_category().message(errno);
  throw Error(concat("shared memory of ", bytes, " bytes cannot be allocated (", call, ": ", reason,
                     "): allow the process more memory (ulimit -v, the container's limit), or ask for smaller slots or tensors"));
}

}  // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(value_, other.value_);
  return *this;
}

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

Descriptor make_memory(int64_t bytes) {
  Descriptor memory(::memfd_create("torchweave", MFD_CLOEXEC));
  if (memory.get() < 0) fail("memfd_create", bytes);
  if (::ftruncate(memory.get(), bytes) != 0) fail("ftruncate", bytes);
  return memory;
}

Mapping::Mapping(const Descriptor& memory, int64_t bytes) {
  void* begin = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (begin == MAP_FAILED) fail("mmap", bytes);
  ::madvise(begin, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // a hint: if the kernel ignores it, only time is lost
  bytes_ = {static_cast<std::byte*>(begin), static_cast<size_t>(bytes)};
}

Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace tw::shared_memory
