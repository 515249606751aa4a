// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

namespace tw {

/// The content of a file or a pipe. @throws FileError where it cannot be read, is a folder, or has more than `most` bytes.
std::string read_file(const std::filesystem::path& path, int64_t most = std::numeric_limits<int64_t>::max());

}  // namespace tw
