// SPDX-License-Identifier: Apache-2.0
#include "input_file.hpp"

#include <cstring>
#include <tw/data/npy.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return tw::fuzz::try_reading(data, size, [](const auto& path) {
    const at::Tensor whole = tw::read_npy(path);
    const tw::NpyFile file(path);  // refuses arrays without dimensions
    if (file.rows() == 0) return;
    const int64_t last = file.rows() - 1;
    const at::Tensor row = file.read_rows({&last, 1});
    // Both ways of reading must agree, to the bit (NaN is not equal to itself).
    const at::Tensor expected = whole.slice(0, last).contiguous();
    if (row.nbytes() != expected.nbytes() || (row.nbytes() > 0 && std::memcmp(row.data_ptr(), expected.data_ptr(), row.nbytes()) != 0)) std::abort();
  });
}
