// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <vector>

namespace tw::tool {

/// The files in `folder` by which Open MPI's ranks shared memory, and that a job left which was killed: this user's, a minute old or more, and mapped
/// by no process here. By name.
std::vector<std::filesystem::path> left_by_open_mpi(const std::filesystem::path& folder);

}  // namespace tw::tool
