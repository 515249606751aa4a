// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tw/base/call.hpp>
#include <tw/mpi/engine.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/mpi/start_queue.hpp>
#include <vector>

#include "engine.hpp"
#include "operations.hpp"
#include "retired.hpp"

namespace tw::mpi {

/// @throws MpiError unless `code` is MPI_SUCCESS.
void check(int code, const char* call, const std::string& communicator);

// Tags reserved for the library, after Tag::largest.
constexpr int control_tag = Tag::largest + 1;   // see control.hpp
constexpr int exchange_tag = Tag::largest + 2;  // gather, scatter, all-to-all of lists
constexpr int subset_tag = Tag::largest + 3;    // rendezvous of the members of a subset
constexpr int group_tag = Tag::largest + 4;     // for MPI_Comm_create_group, whose internal messages Open MPI delivers to receives with its tag
constexpr int aside_tag = Tag::largest + 5;     // messages of an operation while it is in flight
constexpr int cut_tag = Tag::largest + 6;       // data too long for one MPI call
constexpr int audit_tag = Tag::largest + 7;     // comparison of the calls that ranks make
constexpr int first_sequence_tag = 32768;  // first tag of collectives made of messages; they use all tags above, where MPI has more than the required
                                           // range

/// State that outlives the users' handles: the engine, and communicators waiting to be freed. One per Environment; its communicators share it, so it
/// lives as long as any of them.
class Runtime {
 public:
  /// @param level granted by MPI
  /// @param guest whether the program owns MPI, so that the library must not end the job
  Runtime(const EnvironmentOptions& options, bool audit, ThreadLevel level, bool guest);

  /// The runtime of the Environment that exists, or null.
  static std::shared_ptr<Runtime> find_current();
  /// The same, but @throws NotInitialisedError, naming `user`, if there is none.
  static std::shared_ptr<Runtime> current(const std::string& user);
  /// Whether its Environment has been destroyed.
  bool closed() const noexcept { return closed_; }
  static void set_current(const std::shared_ptr<Runtime>& runtime);

  Engine& engine() noexcept { return engine_; }
  bool is_guest() const noexcept { return guest_; }
  const Operations& operations() const noexcept { return operations_; }
  bool audit() const noexcept { return audit_; }
  /// Whether any communicator has been revoked.
  std::atomic<bool>& knows_revoked() noexcept { return knows_revoked_; }
  int64_t largest_message() const noexcept { return largest_message_; }
  int largest_tag() const noexcept { return largest_tag_; }
  std::optional<bool> device_aware() const noexcept { return device_aware_; }
  /// CommunicatorState::neighbours of the world.
  std::vector<int>& world_neighbours() noexcept { return world_neighbours_; }

  /// Numbers communicators by age, so that all ranks free them in the same order.
  uint64_t next_communicator() noexcept { return made_communicators_++; }
  void free_later(Retired retired);
  int64_t communicators_to_free();
  /// Whether enough communicators were dropped since the last attempt that another one is worthwhile. MPICH allows at most 2,048 at a time.
  bool wants_to_free();
  /// Frees the queued communicators of one member, which needs no other rank.
  void free_communicators_of_one();
  /// Frees the queued communicators, oldest first. Collective over each of them. For shutdown, when no new ones are made.
  void free_communicators();
  /// Frees the communicators that all members have queued, if all those members are in `comm`. Collective.
  void free_communicators_queued_everywhere(const Communicator& comm);

  /// Completes dropped operations and frees queued communicators. Aborts the job if that fails; a guest logs the error and abandons them. A second
  /// call does nothing.
  void close();
  /// Drops everything without touching it: buffers of messages that may still be in flight are leaked, not freed.
  void abandon();

 private:
  void fail_to_close(const std::string& why);

  const bool guest_;
  const bool audit_;
  const int64_t largest_message_;
  const int largest_tag_;
  const std::optional<bool> device_aware_;
  const std::chrono::milliseconds drain_timeout_;
  std::atomic<bool> closed_ = false;
  std::atomic<bool> knows_revoked_ = false;
  std::atomic<uint64_t> made_communicators_ = 0;
  std::vector<int> world_neighbours_;
  Operations operations_;
  std::mutex mutex_;
  std::vector<Retired> retired_;
  size_t stay_ = 0;  // number of retired_ that could not be freed at the last attempt
  Engine engine_;    // last: its operations hold communicators
};

/// Message between the members of a new subset; see rendezvous.cpp.
struct RendezvousMessage {
  enum class Kind : int32_t { arrive, ask, stay, proceed, cancel };
  Kind kind = Kind::arrive;
  uint64_t list = 0;     // hash of the members
  uint64_t attempt = 0;  // attempt of the member that is not the leader
};

struct CommunicatorState {
  CommunicatorState() = default;
  CommunicatorState(const CommunicatorState&) = delete;
  CommunicatorState& operator=(const CommunicatorState&) = delete;
  /// Queues the MPI handle to be freed: MPI_Comm_free is collective, and this may run while only this rank unwinds.
  ~CommunicatorState();

  MPI_Comm handle = MPI_COMM_NULL;
  bool owned = true;
  uint64_t age = 0;
  uint64_t key = 0;  // random, drawn at creation; the same on all members
  int rank = 0;
  int size = 1;
  std::vector<int> neighbours;  // ranks of this node, ascending; empty: MPI has not been asked yet
  std::string name;
  std::shared_ptr<Runtime> runtime;
  std::shared_ptr<CommunicatorState> parent;  // its revocation revokes this one too

  StartQueue collective_calls;
  StartQueue messages;
  TrafficCounters traffic;

  /// Orders the labelled receives from one rank with one tag, which run one after the other.
  struct Turns {
    std::atomic<int64_t> taken = 0;
    std::atomic<int64_t> over = 0;
  };
  std::shared_ptr<Turns> turns_of(int from, int tag);

  // The members below are used under the engine's lock.
  /// Whether messages that are neither received nor counted may have been sent. Such a communicator is freed only at shutdown; see Traffic.
  bool may_hold_leftovers = false;
  std::vector<std::shared_ptr<Transfer>> announcements;  // may still be in flight
  std::vector<std::shared_ptr<void>> kept;               // failed transfers and their memory, which MPI or peers may still touch
  uint64_t calls = 0;                                    // collective calls begun
  uint64_t finished = 0;                                 // collective calls ended
  Call last_call;                                        // call that started last
  std::string activity;                                  // see set_activity()
  std::shared_ptr<Board> board;
  std::map<int, LastSeen> notes;  // other ranks' messages about what they wait for
  std::atomic<bool> revoked = false;
  std::string revoked_because;
  uint64_t meetings = 0;                      // number of subsets this rank has tried to make
  std::map<int, RendezvousMessage> arrivals;  // members that wait for a subset led by this rank

  std::shared_ptr<void> attachment;

  std::mutex turns_mutex;
  std::map<std::pair<int, int>, std::shared_ptr<Turns>> turns;  // by rank and tag

  void mark_revoked(const std::string& because);
  /// Writes on the board that this rank makes no further calls. Not while unwinding: then a revocation informs the others, or may be in flight.
  void leave() noexcept;
  /// The nearest revoked communicator among this one and its ancestors; null if none.
  const CommunicatorState* revoked_ancestor() const noexcept;
};

/// MPI's calls that make communicators cannot be interrupted. So the members first meet in a barrier that can be; the call itself is then short.
void meet(const Communicator& comm);

/// Asks MPI which ranks share memory with this rank of `comm`; ascending. Collective, and not interruptible: call it only when all members of `comm`
/// have just arrived.
std::vector<int> find_neighbours(const CommunicatorState& comm);

/// A communicator of the ranks that share memory with this one, in `comm` order; the caller frees it. Collective.
MPI_Comm make_node_handle(const Communicator& comm);

/// Makes the state for `handle`; owns it if `owned`. From time to time the members then also free dropped communicators, for programs that keep
/// making new ones.
/// @param parent may be null.
std::shared_ptr<CommunicatorState> make_communicator_state(MPI_Comm handle, bool owned, std::string name, std::shared_ptr<Runtime> runtime,
                                                           std::shared_ptr<CommunicatorState> parent);

}  // namespace tw::mpi
