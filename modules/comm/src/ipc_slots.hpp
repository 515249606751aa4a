// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <vector>

#include "ipc_library.hpp"

namespace tw::ipc {

/// Two slots of device memory per rank, which all ranks of a node have mapped, and the events with which their streams wait for each other. Slots are
/// kept until the process ends, because other ranks may still read them. The next communicator of the same ranks reuses them.
class Slots {
 public:
  /// What a rank's stream has done with a slot.
  enum class Mark : uint8_t {
    shown,    ///< its slot holds the data for the others
    reduced,  ///< its slot holds its part of the result
    taken,    ///< it has read the slots of all ranks
  };
  static constexpr size_t marks = 3;
  static constexpr size_t slots_each = 2;

  /// Reuses the slots of an earlier communicator of these ranks, or makes new ones. Collective. @param library null: this process has none. @param
  /// failure set to the error and its rank on failure; the result is then null on every rank.
  static std::shared_ptr<Slots> connect(const Communicator& comm, const Library* library, c10::Device device, int64_t bytes, std::string& failure);

  int64_t bytes() const noexcept { return bytes_; }
  /// A slot of `rank`, in this rank's device memory or mapped into it.
  std::byte* memory(int rank, size_t slot) const { return memory_[static_cast<size_t>(rank)] + static_cast<int64_t>(slot) * bytes_; }
  /// The slot in use, the same on all ranks.
  size_t current() const noexcept { return turn_ % slots_each; }
  /// Call it only after all ranks have met for the current slot: if their calls differ, some ranks use no slot.
  void next() noexcept { ++turn_; }

  /// Sets this rank's mark in `stream`, a native handle.
  void set(Mark mark, size_t slot, void* stream) const;
  /// Makes `stream` wait for the latest mark of every rank.
  void wait_for_all(Mark mark, size_t slot, void* stream) const;
  /// Prevents reuse by another communicator: some rank may never have done its part.
  void give_up() noexcept { given_up_ = true; }

 private:
  class Pool;
  using Events = std::vector<void*>;  // by slot and mark

  Slots(const Library* library, c10::Device device, int64_t bytes) : library_(library), device_(device), bytes_(bytes) {}
  std::string make_mine();
  void map(size_t rank, const std::string& offer);
  void discard(const Communicator& comm);
  void check(int error, const char* what) const;

  const Library* const library_;
  const c10::Device device_;
  const int64_t bytes_;             // of one slot
  std::vector<std::byte*> memory_;  // by rank
  std::vector<Events> events_;      // by rank
  size_t mine_ = 0;
  uint64_t turn_ = 0;
  std::atomic<bool> given_up_ = false;
};

}  // namespace tw::ipc
