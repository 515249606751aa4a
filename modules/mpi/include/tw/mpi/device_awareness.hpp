// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string_view>
#include <tw/mpi/communicator.hpp>

namespace tw::mpi {

/// Whether MPI takes pointers to the memory of one kind of device; nothing where unknown.
struct DeviceAwareness {
  std::optional<bool> compiled;  ///< by the headers that this library was compiled with
  std::optional<bool> running;   ///< by EnvironmentOptions::device_aware, or else the library that runs
};

/// @param kind as LibTorch calls it: "cuda", "hip", "xpu"; of others MPI does not speak. Local, and the same on all ranks of one MPI.
///
/// Open MPI speaks of CUDA, and of ROCm from version 5 on (mpi-ext.h); MPICH 4 of all three (MPIX_GPU_query_support).
DeviceAwareness device_awareness(const Communicator& comm, std::string_view kind);

/// Whether messages and collectives of `comm` may be given such pointers.
inline bool takes_devices(const Communicator& comm, std::string_view kind) { return device_awareness(comm, kind).running.value_or(false); }

}  // namespace tw::mpi
