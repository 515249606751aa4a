// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <vector>

namespace tw::tool {

/// The shared-memory files of Open MPI in `folder` that killed jobs have left: files of this user, at least a minute old, that no process on this
/// machine has mapped. Sorted by name.
std::vector<std::filesystem::path> left_by_open_mpi(const std::filesystem::path& folder);

}  // namespace tw::tool
