// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw {
class Config;
}

namespace tw::tool {

/// Prints each bound value and its origin to standard output.
void print_settings(const Config& config);

}  // namespace tw::tool
