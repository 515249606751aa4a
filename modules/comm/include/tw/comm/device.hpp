// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>

#include <string>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// Returns the device on which this rank computes, and makes it this thread's current device of its kind. Collective.
///
/// For an accelerator, the function also binds the calling thread, and threads that this thread creates later, to those cores of the device's NUMA
/// node that the thread may use. If there are none, it logs a warning and binds nothing; if the NUMA node is unknown, it binds nothing. Call it
/// before find_topology(), which counts a rank's cores. Without an index in `wanted`, local rank r uses device r mod n of its node's n devices. If
/// ranks of the node of rank 0 must share a device, rank 0 logs a warning.
/// @param wanted the same on all ranks: "cpu"; a kind of accelerator, such as "cuda"; one device of each node for all of its ranks, such as "cuda:1";
/// or "auto": the accelerator that LibTorch finds on every rank, otherwise "cpu"
/// @throws Error on every rank if a rank has no such device. @throws ContractError if ranks pass different names.
c10::Device device_of_rank(const Communicator& comm, const std::string& wanted);

}  // namespace tw
