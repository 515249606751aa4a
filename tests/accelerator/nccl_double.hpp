// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::testing::accelerator {

/// Provides NCCL for the simulated devices; call before the first collective. mpi_main.cpp does in programs that link tw_nccl_double.
void offer_nccl();
bool nccl_is_offered();

/// Number of communicators of the NCCL double that this process has ended by ncclCommAbort().
int nccl_aborts();

}  // namespace tw::testing::accelerator
