// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>

#include <string>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// The device on which this rank computes; it becomes the current one of its kind for this thread. Collective.
///
/// The thread, and threads that it creates later, then stay on the cores of the device's NUMA node, as far as they may use them and these are known;
/// where they may use none, a warning is logged. So ask for the device before set_threads_per_rank(), which counts cores.
/// The ranks of a node share its devices in turn: local rank r uses device r mod n of n. With more ranks than devices, rank 0 logs a warning.
/// @param wanted the same on all ranks: "cpu"; a kind of accelerator, such as "cuda"; one device of each node for all of its ranks, such as "cuda:1";
/// or "auto", which is the accelerator that LibTorch finds on every rank, else "cpu"
/// @throws Error on every rank, naming ranks and node, where there is no such device. @throws ContractError where ranks want different ones.
c10::Device device_of_rank(const Communicator& comm, const std::string& wanted);

}  // namespace tw
