// SPDX-License-Identifier: Apache-2.0
// What CUDA's run time, or HIP's, has for memory and events that processes of one node share: found by name in what LibTorch has loaded, so that one
// build of ours serves machines with and without. Names, numbers and layouts are those of their C interfaces (driver_types.h, hip_runtime_api.h).
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

/// Its functions, on the current device; they give 0 where all is well.
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
  int (*wait)(void* stream, void* event, unsigned flags);  ///< for what was recorded last, at the time of this call
  const char* (*text_of)(int error);
  int (*clear_error)();

  /// The one of this process for devices of this kind; null where there is none. "cuda" has one, as LibTorch calls HIP's too.
  static const Library* find(std::string_view kind);
  /// From now on find() gives `other`: for tests.
  static void replace(const Library* other);
};

}  // namespace tw::ipc
