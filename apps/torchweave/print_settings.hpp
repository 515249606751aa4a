// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw {
class Config;
}

namespace tw::tool {

/// Shows on standard output each value that was asked for, and where it came from.
void print_settings(const Config& config);

}  // namespace tw::tool
