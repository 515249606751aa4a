// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tw {

/// What the header of an NPY file says.
struct NpyFormat {
  c10::ScalarType dtype = c10::kFloat;
  bool swapped = false;  ///< big-endian, as this machine is not
  bool fortran = false;  ///< the first index varies fastest
  std::vector<int64_t> shape;
  int64_t offset = 0;  ///< of the first element

  int64_t numel() const noexcept;
  int64_t element_bytes() const noexcept { return static_cast<int64_t>(c10::elementSize(dtype)); }
};

/// Reads the header of an NPY file, of format 1.0, 2.0 or 3.0, and checks that the rest of `content` is as long as it says.
/// @throws FileError naming `path` and the offset.
/// Ref: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
NpyFormat parse_npy(std::string_view content, const std::filesystem::path& path);

/// The header of format 1.0 for an array in C order on this machine, up to the first element.
/// @throws ContractError for a dtype that NumPy lacks.
std::string npy_header(c10::ScalarType dtype, const std::vector<int64_t>& shape);

/// Makes `count` elements as they lie in the file usable here: swaps the bytes of `swapped` ones; bools become 0 or 1.
void to_native(char* data, int64_t count, const NpyFormat& format) noexcept;

}  // namespace tw
