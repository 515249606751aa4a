// SPDX-License-Identifier: Apache-2.0
// The index of a checkpoint, after its checksum, which no fuzzer would get past.
#include <tw/base/error.hpp>
#include <tw/state/index.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    (void)tw::parse_index_body({reinterpret_cast<const char*>(data), size}, "input");
  } catch (const tw::FileError&) {
  }
  return 0;
}
