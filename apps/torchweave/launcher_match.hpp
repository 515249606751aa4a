// SPDX-License-Identifier: Apache-2.0
// Whether ranks were started by a launcher that their MPI does not know: each of them is alone then, and does all of the work.
#pragma once
#include <functional>
#include <optional>
#include <string>

namespace tw::tool {

/// The value of an environment variable; nothing where it is not set.
using Variables = std::function<std::optional<std::string>(const char* name)>;
/// Of this process.
std::optional<std::string> variable(const char* name);

/// What to say where a launcher has started several processes and MPI counts one rank; "" where they agree. @param ranks as MPI counts them
std::string launcher_mismatch(const Variables& variables, int ranks);
/// Whether this process is the first one of its launcher; true without a launcher.
bool is_first_process(const Variables& variables);

}  // namespace tw::tool
