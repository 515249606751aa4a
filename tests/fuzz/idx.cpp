// SPDX-License-Identifier: Apache-2.0
#include "input_file.hpp"

#include <tw/data/idx.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return tw::fuzz::try_reading(data, size, [](const auto& path) { (void)tw::read_idx(path); });
}
