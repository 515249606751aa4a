// SPDX-License-Identifier: Apache-2.0
// The parts of the CUDA or HIP runtime that share memory and events among processes of a node. Functions are found by name in the libraries that
// LibTorch has loaded, so one build serves machines with and without a GPU. Names, numbers and layouts follow the C interfaces (driver_types.h,
// hip_runtime_api.h).
#pragma once
#include <cstddef>
#include <string_view>

namespace tw::ipc {

struct MemoryHandle {  // cudaIpcMemHandle_t
  char bytes[64];
};
struct EventHandle {  // cudaIpcEventHandle_t
  char bytes[64];
};

/// The runtime's functions, on the current device; they return 0 on success.
struct Library {
  static constexpr unsigned lazily = 1;           // cudaIpcMemLazyEnablePeerAccess
  static constexpr unsigned between = 0x4 | 0x2;  // cudaEventInterprocess | cudaEventDisableTiming

  int (*allocate)(void** memory, size_t bytes);
  int (*free)(void* memory);
  int (*export_memory)(MemoryHandle*, void* memory);
  int (*map_memory)(void** memory, MemoryHandle, unsigned flags);
  int (*unmap_memory)(void* memory);
  int (*create_event)(void** event, unsigned flags);
  int (*export_event)(EventHandle*, void* event);
  int (*map_event)(void** event, EventHandle);
  int (*record)(void* event, void* stream);
  int (*wait)(void* stream, void* event, unsigned flags);  ///< for the event's latest recording at the time of this call
  const char* (*text_of)(int error);
  int (*clear_error)();

  /// This process's library for devices of `kind`; null if there is none. HIP is "cuda" too, as in LibTorch.
  static const Library* find(std::string_view kind);
  /// Makes find() return `other` from now on, for tests.
  static void replace(const Library* other);
};

}  // namespace tw::ipc
