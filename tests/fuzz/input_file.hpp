// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <tw/base/error.hpp>

namespace tw::fuzz {

/// The fuzzer's input as a file in memory, for readers that take a path.
class InputFile {
 public:
  InputFile(const uint8_t* data, size_t size) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (descriptor_ < 0 || write(descriptor_, data, size) != static_cast<ssize_t>(size)) std::abort();
  }
  ~InputFile() { close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// Calls `read` on a file with the fuzzer's input. An Error is a fair answer to it; anything else that is thrown ends the program.
template <class Read>
int try_reading(const uint8_t* data, size_t size, const Read& read) {
  const InputFile file(data, size);
  try {
    read(file.path());
  } catch (const Error&) {
  }
  return 0;
}

}  // namespace tw::fuzz

// What libFuzzer calls, declared so that defining it is no warning.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);  // NOLINT(readability-identifier-naming)
