// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string_view>

namespace tw {

/// The tensor that the content of an NPY file holds. @throws FileError naming `path`, as read_npy().
at::Tensor tensor_from_npy(std::string_view content, const std::filesystem::path& path);

}  // namespace tw
