// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <ATen/ops/_conj.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "accelerator.hpp"
#include "streams.hpp"

namespace tw::testing::accelerator {
namespace {

constexpr size_t region_bytes = size_t{2} << 30;  // pages are allocated on first touch
constexpr size_t alignment = 256;

struct Block {
  size_t bytes = 0;
  size_t asked = 0;                  // requested bytes, without alignment
  c10::Stream owner;                 // stream it was allocated for
  std::vector<c10::Stream> users{};  // other streams that record_stream() named
};

class Region {
 public:
  Region() {
    const int file = memfd_create("simulated_accelerator", MFD_CLOEXEC);
    TORCH_CHECK(file >= 0 && ftruncate(file, region_bytes) == 0, "no memory for the simulated accelerator");
    trap_ = map(file, PROT_NONE);
    open_ = map(file, PROT_READ | PROT_WRITE);
    close(file);
    free_[0] = region_bytes;
  }

  std::byte* allocate(size_t asked) {
    const size_t bytes = (std::max<size_t>(asked, 1) + alignment - 1) / alignment * alignment;
    std::byte* memory = try_to_allocate(bytes, asked);
    if (memory == nullptr) {
      finish_all();  // freed memory may still wait for its stream
      memory = try_to_allocate(bytes, asked);
    }
    TORCH_CHECK_WITH(OutOfMemoryError, memory != nullptr, "the simulated accelerator has no ", bytes, " bytes left");
    report(memory, static_cast<int64_t>(asked), current_device());
    return memory;
  }

  // The memory is reused once all streams that may read it have finished their current work; it is filled with NaN first.
  void free(std::byte* memory) {
    Block block = take(memory);
    report(memory, -static_cast<int64_t>(block.asked), block.owner.device());
    const auto at = static_cast<size_t>(memory - trap_);
    auto streams = std::move(block.users);
    streams.push_back(block.owner);
    const auto left = std::make_shared<size_t>(streams.size());
    for (const c10::Stream& stream : streams) {
      put(stream, [this, at, bytes = block.bytes, left] {
        if (--*left > 0) return;
        std::memset(open_ + at, 0xff, bytes);
        give_back(at, bytes);
      });
    }
  }

  void used_by(std::byte* memory, c10::Stream stream) {
    const std::lock_guard lock(mutex_);
    Block& block = blocks_.at(static_cast<size_t>(memory - trap_));
    if (stream != block.owner) block.users.push_back(stream);
  }

  bool has(const void* memory) const { return memory >= trap_ && memory < trap_ + region_bytes; }
  std::byte* open(const void* memory) const { return open_ + (static_cast<const std::byte*>(memory) - trap_); }

 private:
  static std::byte* map(int file, int protection) {
    void* memory = mmap(nullptr, region_bytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
    TORCH_CHECK(memory != MAP_FAILED, "no addresses for the simulated accelerator");
    return static_cast<std::byte*>(memory);
  }

  // Reports to profilers, as allocators do.
  static void report(void* memory, int64_t bytes, c10::Device device) {
    if (bytes != 0 && c10::memoryProfilingEnabled()) c10::reportMemoryUsageToProfiler(memory, bytes, 0, 0, device);
  }

  std::byte* try_to_allocate(size_t bytes, size_t asked) {
    const std::lock_guard lock(mutex_);
    const auto fits = [&](const auto& part) { return part.second >= bytes; };
    const auto found = std::find_if(free_.begin(), free_.end(), fits);
    if (found == free_.end()) return nullptr;
    const auto [at, size] = *found;
    free_.erase(found);
    if (size > bytes) free_[at + bytes] = size - bytes;
    blocks_.insert({at, {bytes, asked, current_stream(current_device())}});
    return trap_ + at;
  }

  void give_back(size_t at, size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto part = free_.insert({at, bytes}).first;
    if (const auto after = std::next(part); after != free_.end() && at + bytes == after->first) {
      part->second += after->second;
      free_.erase(after);
    }
    if (part == free_.begin()) return;
    if (const auto before = std::prev(part); before->first + before->second == at) {
      before->second += part->second;
      free_.erase(part);
    }
  }

  Block take(std::byte* memory) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(static_cast<size_t>(memory - trap_));
    Block block = found->second;
    blocks_.erase(found);
    return block;
  }

  std::mutex mutex_;
  std::byte* trap_;
  std::byte* open_;
  std::map<size_t, size_t> free_;  // by offset
  std::map<size_t, Block> blocks_;
};

Region& region() {
  static auto& only = *new Region;  // never destroyed: tensors may be freed after everything else
  return only;
}

struct DeviceAllocator : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* memory = region().allocate(bytes);
    return {memory, memory, raw_deleter(), current_device()};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* memory) { region().free(static_cast<std::byte*>(memory)); };
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(region().open(to), region().open(from), bytes); }
};

// Pinned memory is ordinary host memory, recognised by its address.
struct PinnedAllocator : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* memory = std::malloc(std::max<size_t>(bytes, 1));
    const std::lock_guard lock(mutex);
    blocks[memory] = std::max<size_t>(bytes, 1);
    return {memory, memory, raw_deleter(), c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* memory) {
      auto& self = static_cast<PinnedAllocator&>(*pinned_allocator());
      {
        const std::lock_guard lock(self.mutex);
        self.blocks.erase(memory);
      }
      std::free(memory);
    };
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

  std::mutex mutex;
  std::map<const void*, size_t> blocks;
};

MpiSight sight_of_mpi = MpiSight::nothing;
/// Memory mapped from another process.
struct Mapping {
  const std::byte* trap;
  size_t bytes;
  std::byte* open;
};
std::mutex mappings_mutex;
std::vector<Mapping> mappings;

}  // namespace

void let_mpi_see(MpiSight sight) { sight_of_mpi = sight; }

void add_memory(void* trap, size_t bytes, void* open) {
  const std::lock_guard lock(mappings_mutex);
  mappings.push_back({static_cast<std::byte*>(trap), bytes, static_cast<std::byte*>(open)});
}

void* opened(void* memory) {
  if (region().has(memory)) return region().open(memory);
  const std::lock_guard lock(mappings_mutex);
  for (const Mapping& mapping : mappings) {
    if (memory >= mapping.trap && memory < mapping.trap + mapping.bytes) return mapping.open + (static_cast<std::byte*>(memory) - mapping.trap);
  }
  return memory;
}

void* seen_by_mpi(void* memory) {
  if (sight_of_mpi == MpiSight::nothing || !region().has(memory)) return memory;
  return region().open(memory) + (sight_of_mpi == MpiSight::shifted ? 1 : 0);
}

c10::Allocator* device_allocator() {
  static auto& only = *new DeviceAllocator;
  return &only;
}

c10::Allocator* pinned_allocator() {
  static auto& only = *new PinnedAllocator;
  return &only;
}

bool is_pinned(const void* memory) {
  auto& pinned = static_cast<PinnedAllocator&>(*pinned_allocator());
  const std::lock_guard lock(pinned.mutex);
  auto after = pinned.blocks.upper_bound(memory);
  if (after == pinned.blocks.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return static_cast<const std::byte*>(memory) < static_cast<const std::byte*>(begin) + bytes;
}

at::Tensor seen_by_stream(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_privateuseone()) return tensor;
  const auto options = at::TensorOptions().dtype(tensor.scalar_type());
  if (tensor.storage().nbytes() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  std::byte* memory =
      static_cast<std::byte*>(opened(tensor.storage().mutable_data())) + tensor.storage_offset() * static_cast<int64_t>(tensor.element_size());
  at::Tensor same = at::from_blob(memory, tensor.sizes(), tensor.strides(), options);
  if (tensor.is_conj()) same = at::_conj(same);
  if (tensor.is_neg()) same = at::_neg_view(same);
  return same;
}

void used_by(const c10::Storage& storage, c10::Stream stream) {
  if (storage.nbytes() > 0) region().used_by(static_cast<std::byte*>(storage.mutable_data()), stream);
}

}  // namespace tw::testing::accelerator
