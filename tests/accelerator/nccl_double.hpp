// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::testing::accelerator {

/// How many communicators of NCCL's double this process has ended by ncclCommAbort().
int nccl_aborts();

}  // namespace tw::testing::accelerator
