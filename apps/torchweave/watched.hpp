// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace tw::tool {

/// Does `run` in a child process, which may crash: this one stays behind, sees how it ends, and says so. Before MPI and devices are initialised,
/// since both belong to one process.
///
/// @param run returns an exit code. What it is about to do, it says to `about_to`.
/// @param crashed is told, here, what the child was doing, and how it ended: "signal 11 (Segmentation fault)"; "" where this process was told to end
/// by SIGTERM, as a launcher does when another rank has crashed
/// @return the exit code of `run`; 1 where it crashed
int watched(const std::function<int(const std::function<void(std::string_view)>& about_to)>& run,
            const std::function<void(const std::string& doing, const std::string& end)>& crashed);

}  // namespace tw::tool
