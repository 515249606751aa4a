// SPDX-License-Identifier: Apache-2.0
// What the environment variables of a launcher say about the processes that it has started.
#pragma once
#include <functional>
#include <optional>
#include <string>

namespace tw::tool {

/// The value of an environment variable; empty if it is not set.
using Variables = std::function<std::optional<std::string>(const char* name)>;
/// Looks up the environment of this process.
std::optional<std::string> variable(const char* name);

/// The launcher that has started this process, alone or with others; empty if none is known.
std::string launcher_of(const Variables& variables);
/// Whether a launcher has started this process together with others.
bool started_with_others(const Variables& variables);
/// A warning if a launcher has started several processes and MPI counts one rank: each process then does all of the work. Empty if they agree.
/// @param ranks as MPI counts them
std::string launcher_mismatch(const Variables& variables, int ranks);
/// Whether this process is the first one of its launcher; true without a launcher.
bool is_first_process(const Variables& variables);

}  // namespace tw::tool
