// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::tool {

/// For commands whose result is what they print. @throws Error if standard output cannot be written completely, for example because a disk is full
void expect_output_written();

}  // namespace tw::tool
