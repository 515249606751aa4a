// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>

namespace tw {

/// Reads a file in IDX format (MNIST's). Detects from the content whether it is gzipped.
/// @return a contiguous CPU tensor of the file's shape and type: uint8, int8, int16, int32, float32 or float64.
/// @throws FileError naming file and offset (of a gzipped file: in the unzipped bytes) if the file is missing, is not IDX, has no or too large
/// dimensions, ends early, has trailing bytes after the last element, or is damaged gzip.
at::Tensor read_idx(const std::filesystem::path& path);

}  // namespace tw
