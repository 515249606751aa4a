// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace tw {

/// Reads an NPZ file, compressed or not: the arrays that NumPy's savez() and savez_compressed() put into one file.
/// @return their names (without .npy) and values (see read_npy()), in the file's order.
/// @throws FileError naming the file, and the array as if the file were a folder: not a ZIP archive, damaged (by its checksums), an entry that is not
/// NPY.
std::vector<std::pair<std::string, at::Tensor>> read_npz(const std::filesystem::path& path);

}  // namespace tw
