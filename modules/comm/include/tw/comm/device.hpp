// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>

#include <string>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// Returns the device on which this rank computes, and makes it this thread's current device of its kind. Collective.
///
/// It also binds this thread, and threads that it creates later, to those cores of the device's NUMA node that the process may use. It logs a warning
/// if the process may use none of them, and does not bind if the node is unknown. Call it before set_threads_per_rank(), which counts cores. The
/// ranks of a node share its devices in turn: local rank r uses device r mod n of n. With more ranks than devices, rank 0 logs a warning.
/// @param wanted the same on all ranks: "cpu"; a kind of accelerator, such as "cuda"; one device of each node for all of its ranks, such as "cuda:1";
/// or "auto": the accelerator that LibTorch finds on every rank, otherwise "cpu"
/// @throws Error on every rank, naming ranks and node, if there is no such device. @throws ContractError if ranks pass different names.
c10::Device device_of_rank(const Communicator& comm, const std::string& wanted);

}  // namespace tw
