// SPDX-License-Identifier: Apache-2.0
// CUDA's functions for memory and events shared between processes, for the simulated devices, in programs that link tw_ipc_double. Memory is an
// unnamed file that other processes map. An event is two counters in such a file: how often it was recorded, and how many of those recordings its
// stream has reached.
#include "ipc_double.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <fcntl.h>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>

#include "ipc_library.hpp"
#include "memory.hpp"
#include "streams.hpp"

namespace accelerator = tw::testing::accelerator;
using namespace tw::ipc;

namespace {

constexpr int success = 0;
constexpr int invalid_value = 1;
constexpr int out_of_memory = 2;

bool offered = false;
int allocations = 0;
bool is_full = false;

/// A file of any process: the content of a handle's 64 bytes.
struct File {
  int process = 0;
  int descriptor = -1;
  size_t bytes = 0;
};

struct Event {
  std::atomic<uint64_t> recorded;
  std::atomic<uint64_t> reached;
};

std::map<void*, File> exported;  // by this process's address

File new_file(size_t bytes) {
  const int descriptor = memfd_create("simulated_accelerator_shared", MFD_CLOEXEC);
  if (descriptor < 0 || ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) return {};
  return {getpid(), descriptor, bytes};
}

int opened_descriptor(const File& file) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", file.process, file.descriptor);
  return open(path, O_RDWR | O_CLOEXEC);
}

void* map(int descriptor, size_t bytes, int protection) {
  void* memory = mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Mapped twice, like the devices' own memory: the address in tensors traps.
void* map_twice(int descriptor, size_t bytes) {
  void* trap = map(descriptor, bytes, PROT_NONE);
  void* open = map(descriptor, bytes, PROT_READ | PROT_WRITE);
  if (trap == nullptr || open == nullptr) return nullptr;
  accelerator::add_memory(trap, bytes, open);
  return trap;
}

template <class Handle>
int give(Handle* handle, void* of) {
  const auto found = exported.find(of);
  if (found == exported.end()) return invalid_value;
  *handle = {};
  std::memcpy(handle->bytes, &found->second, sizeof(File));
  return success;
}

template <class Handle, class Map>
int take(void** result, const Handle& handle, Map map_it) {
  File file;
  std::memcpy(&file, handle.bytes, sizeof file);
  if (file.process == getpid()) return invalid_value;  // like CUDA
  const int descriptor = opened_descriptor(file);
  if (descriptor < 0) return invalid_value;
  *result = map_it(descriptor, file.bytes);
  close(descriptor);
  return *result == nullptr ? out_of_memory : success;
}

void* map_event_page(int descriptor, size_t bytes) { return map(descriptor, bytes, PROT_READ | PROT_WRITE); }

const Library functions{
    .allocate =
        [](void** memory, size_t bytes) {
          ++allocations;
          if (is_full) return out_of_memory;
          const File file = new_file(bytes);
          *memory = file.descriptor < 0 ? nullptr : map_twice(file.descriptor, bytes);
          if (*memory == nullptr) return out_of_memory;
          exported[*memory] = file;
          return success;
        },
    .free =
        [](void* memory) {
          const File file = exported.at(memory);
          exported.erase(memory);
          return close(file.descriptor);
        },
    .export_memory = [](MemoryHandle* handle, void* memory) { return give(handle, memory); },
    .map_memory = [](void** memory, MemoryHandle handle,
                     unsigned flags) { return flags == Library::lazily ? take(memory, handle, map_twice) : invalid_value; },
    .unmap_memory = [](void*) { return success; },  // remains until the process ends
    .create_event =
        [](void** event, unsigned flags) {
          if (flags != Library::between) return invalid_value;
          const File file = new_file(sizeof(Event));
          *event = map_event_page(file.descriptor, file.bytes);
          exported[*event] = file;
          return *event == nullptr ? out_of_memory : success;
        },
    .export_event = [](EventHandle* handle, void* event) { return give(handle, event); },
    .map_event = [](void** event, EventHandle handle) { return take(event, handle, map_event_page); },
    .record =
        [](void* event, void* stream) {
          auto& of = *static_cast<Event*>(event);
          const uint64_t number = ++of.recorded;
          accelerator::put(accelerator::stream_of_handle(stream), [&of, number] { of.reached.store(number, std::memory_order_release); });
          return success;
        },
    .wait =
        [](void* stream, void* event, unsigned) {
          const auto& of = *static_cast<const Event*>(event);
          const uint64_t number = of.recorded.load(std::memory_order_acquire);
          accelerator::put_attempts(accelerator::stream_of_handle(stream),
                                    [&of, number] { return of.reached.load(std::memory_order_acquire) >= number; });
          return success;
        },
    .text_of = [](int error) { return error == out_of_memory ? "out of memory" : "invalid value"; },
    .clear_error = [] { return success; },
};

}  // namespace

namespace tw::testing::accelerator {

void offer_ipc() {
  offered = true;
  Library::replace(&functions);
}
bool ipc_is_offered() { return offered; }
int ipc_allocations() { return allocations; }
void let_ipc_memory_be_full(bool full) { is_full = full; }

}  // namespace tw::testing::accelerator
