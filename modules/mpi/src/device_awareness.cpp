// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/device_awareness.hpp>

#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include "runtime.hpp"

namespace tw::mpi {
namespace {

#ifdef MPIX_GPU_SUPPORT_CUDA  // MPICH

// MPIX_GPU_SUPPORT_...; -1 for a kind that MPICH does not know.
int number_of(std::string_view kind) {
  if (kind == "cuda") return MPIX_GPU_SUPPORT_CUDA;
  if (kind == "hip") return MPIX_GPU_SUPPORT_HIP;
  return kind == "xpu" ? MPIX_GPU_SUPPORT_ZE : -1;
}

std::optional<bool> compiled_for(std::string_view) { return {}; }  // MPICH's headers do not say

std::optional<bool> running_for(std::string_view kind) {
  int supported = 0;
  if (number_of(kind) < 0 || MPIX_GPU_query_support(number_of(kind), &supported) != MPI_SUCCESS) return {};
  return supported != 0;
}

#else

std::optional<bool> compiled_for([[maybe_unused]] std::string_view kind) {
#ifdef MPIX_CUDA_AWARE_SUPPORT
  if (kind == "cuda") return MPIX_CUDA_AWARE_SUPPORT != 0;
#endif
#ifdef MPIX_ROCM_AWARE_SUPPORT
  if (kind == "hip") return MPIX_ROCM_AWARE_SUPPORT != 0;
#endif
  return {};
}

std::optional<bool> running_for([[maybe_unused]] std::string_view kind) {
#ifdef MPIX_CUDA_AWARE_SUPPORT
  if (kind == "cuda") return MPIX_Query_cuda_support() != 0;
#endif
#ifdef MPIX_ROCM_AWARE_SUPPORT
  if (kind == "hip") return MPIX_Query_rocm_support() != 0;
#endif
  return {};
}

#endif

}  // namespace

DeviceAwareness device_awareness(const Communicator& comm, std::string_view kind) {
  const std::optional<bool> told = comm.state()->runtime->device_aware();
  return {.compiled = compiled_for(kind), .running = told ? told : running_for(kind)};
}

}  // namespace tw::mpi
