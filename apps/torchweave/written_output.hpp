// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::tool {

/// For commands whose result is what they print. @throws Error where standard output cannot take it, such as on a full disk.
void expect_output_written();

}  // namespace tw::tool
