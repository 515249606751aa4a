// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::testing::accelerator {

/// Gives programs what CUDA has for memory that processes share, for the simulated devices; before the first collective. mpi_main.cpp calls it in
/// those that link tw_ipc_double.
void offer_ipc();
bool ipc_is_offered();

/// How often memory to share has been asked for.
int ipc_allocations();
/// From now on there is none, or there is again.
void let_ipc_memory_be_full(bool is_full);

}  // namespace tw::testing::accelerator
