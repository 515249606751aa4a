// SPDX-License-Identifier: Apache-2.0
#include <tw/version.hpp>

namespace tw {

// Required by the installed <tw/version.hpp>.
extern const char TW_VERSION_SYMBOL;
const char TW_VERSION_SYMBOL = '\0';

BuildInfo build_info() noexcept { return {TW_BUILT_VERSION, TW_BUILT_COMPILER, TW_BUILT_MPI, TW_BUILT_LIBTORCH}; }

}  // namespace tw
