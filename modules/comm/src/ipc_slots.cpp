// SPDX-License-Identifier: Apache-2.0
#include "ipc_slots.hpp"

#include <c10/core/DeviceGuard.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>

namespace tw::ipc {
namespace {

/// What a rank shares with the others.
struct Offer {
  MemoryHandle memory;
  std::array<EventHandle, Slots::slots_each * Slots::marks> events;
};

size_t index_of(Slots::Mark mark, size_t slot) { return slot * Slots::marks + static_cast<size_t>(mark); }

// The first failure; empty if none.
std::string first_of(const std::vector<RankFailure>& failures) {
  return failures.empty() ? "" : concat("rank ", failures[0].rank, ": ", failures[0].message);
}

}  // namespace

/// All slots of this process.
class Slots::Pool {
 public:
  /// The processes, the device and the slot size. Several entries may match, so ranks also agree on rank 0's number.
  struct Key {
    std::vector<std::string> processes;
    c10::Device device;
    int64_t bytes;
    bool operator==(const Key&) const = default;
  };

  static Pool& only() {
    static Pool& pool = *new Pool;
    return pool;
  }

  /// The lowest number of unused slots; "" if none.
  std::string find_free(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto is_free = [&](const Entry& entry) { return entry.key == key && entry.slots.use_count() == 1 && !entry.slots->given_up_; };
    const auto found = std::find_if(entries_.begin(), entries_.end(), is_free);
    return found == entries_.end() ? "" : found->number;
  }
  std::shared_ptr<Slots> get(const Key& key, const std::string& number) {
    const std::lock_guard lock(mutex_);
    return std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key && entry.number == number; })->slots;
  }
  void add(Key key, std::string number, std::shared_ptr<Slots> slots) {
    const std::lock_guard lock(mutex_);
    entries_.push_back({std::move(key), std::move(number), std::move(slots)});
  }
  std::string next_number() {
    const std::lock_guard lock(mutex_);
    return std::to_string(++made_);
  }

 private:
  struct Entry {
    Key key;
    std::string number;
    std::shared_ptr<Slots> slots;
  };

  std::mutex mutex_;
  std::vector<Entry> entries_;
  int64_t made_ = 0;
};

std::shared_ptr<Slots> Slots::connect(const Communicator& comm, const Library* library, c10::Device device, int64_t bytes, std::string& failure) {
  const Pool::Key key{allgather_strings(comm, std::to_string(getpid())), device, bytes};
  const std::vector<std::string> free = allgather_strings(comm, Pool::only().find_free(key));
  if (!free[0].empty() && std::all_of(free.begin(), free.end(), [&](const std::string& number) { return number == free[0]; })) {
    return Pool::only().get(key, free[0]);
  }
  std::shared_ptr<Slots> made(new Slots(library, device, bytes));
  made->mine_ = static_cast<size_t>(int{comm.rank()});
  made->memory_.resize(key.processes.size());
  made->events_.resize(key.processes.size());
  std::string mine;
  failure = first_of(failures_on_all_ranks(comm, [&] { mine = made->make_mine(); }));
  if (failure.empty()) {
    const std::vector<std::string> offers = allgather_strings(comm, mine);
    failure = first_of(failures_on_all_ranks(comm, [&] {
      for (size_t rank = 0; rank < offers.size(); ++rank) made->map(rank, offers[rank]);
    }));
  }
  if (!failure.empty()) {
    made->discard(comm);
    return nullptr;
  }
  Pool::only().add(key, broadcast_string(comm, Pool::only().next_number(), Rank(0)), made);
  return made;
}

// Allocates this rank's memory and returns its serialised offer.
std::string Slots::make_mine() {
  if (library_ == nullptr) throw Error("it found neither CUDA nor HIP for its device");
  const c10::DeviceGuard on(device_);
  Offer offer{};
  void* memory = nullptr;
  check(library_->allocate(&memory, slots_each * static_cast<size_t>(bytes_)), "allocating memory to share");
  memory_[mine_] = static_cast<std::byte*>(memory);
  check(library_->export_memory(&offer.memory, memory), "sharing memory");
  for (EventHandle& handle : offer.events) {
    check(library_->create_event(&events_[mine_].emplace_back(), Library::between), "making an event");
    check(library_->export_event(&handle, events_[mine_].back()), "sharing an event");
  }
  return {reinterpret_cast<const char*>(&offer), sizeof offer};
}

void Slots::map(size_t rank, const std::string& offer) {
  if (rank == mine_) return;
  const c10::DeviceGuard on(device_);
  Offer theirs;
  std::memcpy(&theirs, offer.data(), sizeof theirs);
  void* memory = nullptr;
  check(library_->map_memory(&memory, theirs.memory, Library::lazily), "mapping another rank's memory");
  memory_[rank] = static_cast<std::byte*>(memory);
  for (const EventHandle& handle : theirs.events) check(library_->map_event(&events_[rank].emplace_back(), handle), "mapping another rank's event");
}

// Frees the memory once no rank has it mapped.
void Slots::discard(const Communicator& comm) {
  const c10::DeviceGuard on(device_);
  for (size_t rank = 0; rank < memory_.size(); ++rank) {
    if (rank != mine_ && memory_[rank] != nullptr) library_->unmap_memory(memory_[rank]);
  }
  allgather_strings(comm, "");
  if (memory_[mine_] != nullptr) library_->free(memory_[mine_]);
}

void Slots::set(Mark mark, size_t slot, void* stream) const {
  check(library_->record(events_[mine_][index_of(mark, slot)], stream), "recording an event");
}

void Slots::wait_for_all(Mark mark, size_t slot, void* stream) const {
  for (const Events& of_rank : events_) check(library_->wait(stream, of_rank[index_of(mark, slot)], 0), "waiting for an event");
}

void Slots::check(int error, const char* what) const {
  if (error == 0) return;
  library_->clear_error();  // otherwise LibTorch's next call would report it
  throw Error(concat(what, " failed on ", device_.str(), ": ", library_->text_of(error)));
}

}  // namespace tw::ipc
