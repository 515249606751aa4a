// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tw {

/// The header of an NPY file.
struct NpyFormat {
  c10::ScalarType dtype = c10::kFloat;
  bool swapped = false;  ///< big-endian, unlike this machine
  bool fortran = false;  ///< the first index varies fastest
  std::vector<int64_t> shape;
  int64_t offset = 0;  ///< of the first element

  int64_t numel() const noexcept;
  int64_t element_bytes() const noexcept { return static_cast<int64_t>(c10::elementSize(dtype)); }
};

/// Parses the header of an NPY file of format 1.0, 2.0 or 3.0, and checks that `content` has the length it implies.
/// @throws FileError naming `path` and the offset.
/// Ref: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
NpyFormat parse_npy(std::string_view content, const std::filesystem::path& path);

/// The header of format 1.0 for an array in C order and native byte order, up to the first element.
/// @throws ContractError for a dtype that NumPy lacks.
std::string npy_header(c10::ScalarType dtype, const std::vector<int64_t>& shape);

/// Converts `count` elements as read from the file to native form: swaps bytes if `swapped`, and makes bools 0 or 1.
void to_native(char* data, int64_t count, const NpyFormat& format) noexcept;

}  // namespace tw
