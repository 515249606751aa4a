// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::testing::accelerator {

/// Gives programs NCCL for the simulated devices; before the first collective. mpi_main.cpp calls it in those that link tw_nccl_double.
void offer_nccl();
bool nccl_is_offered();

/// How many communicators of NCCL's double this process has ended by ncclCommAbort().
int nccl_aborts();

}  // namespace tw::testing::accelerator
