// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::testing::accelerator {

/// Provides CUDA's inter-process memory functions for the simulated devices; call before the first collective. mpi_main.cpp does in programs that
/// link tw_ipc_double.
void offer_ipc();
bool ipc_is_offered();

/// Number of allocations of shareable memory so far.
int ipc_allocations();
/// Makes further allocations fail, or succeed again.
void let_ipc_memory_be_full(bool is_full);

}  // namespace tw::testing::accelerator
