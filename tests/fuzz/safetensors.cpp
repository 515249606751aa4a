// SPDX-License-Identifier: Apache-2.0
#include <tw/base/error.hpp>
#include <tw/tensor/safetensors.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto contents = tw::parse_safetensors({reinterpret_cast<const char*>(data), size}, "input");
    for (const auto& entry : contents.entries) {  // what was accepted lies inside the file
      if (entry.offset < 8 || entry.bytes < 0 || entry.offset + entry.bytes > static_cast<int64_t>(size)) std::abort();
    }
  } catch (const tw::FileError&) {
  }
  return 0;
}
