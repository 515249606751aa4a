// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string_view>
#include <tw/mpi/communicator.hpp>

namespace tw::mpi {

/// Whether MPI accepts pointers to the memory of one kind of device; std::nullopt if unknown.
struct DeviceAwareness {
  std::optional<bool> compiled;  ///< according to the MPI headers at compile time
  std::optional<bool> running;   ///< according to EnvironmentOptions::device_aware; if that is unset, to the MPI library at run time
};

/// Whether this MPI accepts pointers to the memory of devices of `kind`. Local; the result is the same on all ranks that use the same MPI.
/// @param kind LibTorch's name: "cuda", "hip" or "xpu"; MPI reports nothing about other kinds.
///
/// Open MPI reports CUDA, and from version 5 on also ROCm (mpi-ext.h); MPICH 4 reports all three kinds (MPIX_GPU_query_support).
DeviceAwareness device_awareness(const Communicator& comm, std::string_view kind);

/// Whether messages and collectives of `comm` accept pointers to the memory of devices of `kind`; false if that is unknown.
inline bool takes_devices(const Communicator& comm, std::string_view kind) { return device_awareness(comm, kind).running.value_or(false); }

}  // namespace tw::mpi
