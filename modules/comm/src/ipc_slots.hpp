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

/// Memory on a device, two slots of every rank, that all ranks of a node have mapped; and the events by which their streams wait for each other. It
/// stays to the end of the process, since the others may still read it, and serves the next communicator of the same ranks.
class Slots {
 public:
  /// What a rank's stream has done with a slot.
  enum class Mark : uint8_t {
    shown,    ///< its own holds what the others are to read
    reduced,  ///< and this rank's part of the result
    taken,    ///< it has read those of all
  };
  static constexpr size_t marks = 3;
  static constexpr size_t slots_each = 2;

  /// Takes those of an earlier communicator of these ranks, or makes them. Collective. @param library null: this process has none. @param failure
  /// becomes what went wrong, on which rank, where it could not be done: then the result is null on every rank.
  static std::shared_ptr<Slots> connect(const Communicator& comm, const Library* library, c10::Device device, int64_t bytes, std::string& failure);

  int64_t bytes() const noexcept { return bytes_; }
  /// Memory of `rank`, on this rank's device or mapped there.
  std::byte* memory(int rank, size_t slot) const { return memory_[static_cast<size_t>(rank)] + static_cast<int64_t>(slot) * bytes_; }
  /// Whose turn it is, the same on all ranks.
  size_t current() const noexcept { return turn_ % slots_each; }
  /// To be called when all ranks have met over the current one: of calls that differ, some use no slot.
  void next() noexcept { ++turn_; }

  /// Sets this rank's mark in `stream`, which is the vendor's.
  void set(Mark mark, size_t slot, void* stream) const;
  /// Makes `stream` wait for the mark of every rank that was set last.
  void wait_for_all(Mark mark, size_t slot, void* stream) const;
  /// No communicator gets it any more: somebody may never have done his part.
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
  const int64_t bytes_;             // of a slot
  std::vector<std::byte*> memory_;  // by rank
  std::vector<Events> events_;      // by rank
  size_t mine_ = 0;
  uint64_t turn_ = 0;
  std::atomic<bool> given_up_ = false;
};

}  // namespace tw::ipc
