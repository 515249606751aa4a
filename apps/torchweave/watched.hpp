// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace tw::tool {

/// Calls `run` in a child process, which may crash. This process waits for it and reports how it ended. Call it before MPI and devices are
/// initialized: both belong to one process.
///
/// @param run returns an exit code. It calls `about_to` with what it does next.
/// @param crashed called in this process with what the child was doing and how it ended: "signal 11 (Segmentation fault)", or empty if this process
/// received SIGTERM, which a launcher sends when another rank has crashed
/// @return the exit code of `run`; 1 if it crashed
int watched(const std::function<int(const std::function<void(std::string_view)>& about_to)>& run,
            const std::function<void(const std::string& doing, const std::string& end)>& crashed);

}  // namespace tw::tool
