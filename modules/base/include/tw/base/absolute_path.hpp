// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>

namespace tw {

/// `path` in a form that names the same file after chdir(); an empty path stays empty.
/// For whoever keeps a path to use it later.
inline std::filesystem::path absolute_path(const std::filesystem::path& path) { return path.empty() ? path : std::filesystem::absolute(path); }

}  // namespace tw
