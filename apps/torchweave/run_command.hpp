// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "session.hpp"

namespace tw::tool {

/// Runs the command that the command line names. Every process of the launcher calls it. Prints reports and help, and returns errors.
End run_command(int argc, const char* const* argv, Session& session);

}  // namespace tw::tool
