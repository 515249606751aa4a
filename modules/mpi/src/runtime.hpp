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

// Tags that the library keeps for itself, after Tag::largest.
constexpr int control_tag = Tag::largest + 1;   // see control.hpp
constexpr int exchange_tag = Tag::largest + 2;  // gather, scatter, all-to-all of lists
constexpr int subset_tag = Tag::largest + 3;    // members of a subset meet
constexpr int group_tag = Tag::largest + 4;     // of MPI_Comm_create_group, whose own messages Open MPI shows to whoever receives with its tag
constexpr int aside_tag = Tag::largest + 5;     // what an operation says while it is in flight
constexpr int cut_tag = Tag::largest + 6;       // of what is too long for one call of MPI
constexpr int audit_tag = Tag::largest + 7;     // what ranks call, compared
constexpr int first_sequence_tag = 32768;       // of collectives made of messages: these and all above, where an MPI has more than it must

/// What outlives the handles of users: the engine, and communicators that wait to be freed. One per Environment; shared by its communicators, so that
/// it lives as long as any of them.
class Runtime {
 public:
  /// @param level what MPI granted
  Runtime(const EnvironmentOptions& options, bool audit, ThreadLevel level);

  /// The runtime of the Environment that exists, or null.
  static std::shared_ptr<Runtime> find_current();
  /// The same. @throws NotInitialisedError, naming `user`, where there is none.
  static std::shared_ptr<Runtime> current(const std::string& user);
  /// Whether its Environment has gone.
  bool closed() const noexcept { return closed_; }
  static void set_current(const std::shared_ptr<Runtime>& runtime);

  Engine& engine() noexcept { return engine_; }
  const Operations& operations() const noexcept { return operations_; }
  bool audit() const noexcept { return audit_; }
  /// Whether any communicator has been revoked.
  std::atomic<bool>& knows_revoked() noexcept { return knows_revoked_; }
  int64_t largest_message() const noexcept { return largest_message_; }
  int largest_tag() const noexcept { return largest_tag_; }
  std::optional<bool> device_aware() const noexcept { return device_aware_; }
  /// CommunicatorState::neighbours of the world.
  std::vector<int>& world_neighbours() noexcept { return world_neighbours_; }

  /// Orders communicators by age, so that all ranks free them in one order.
  uint64_t next_communicator() noexcept { return made_communicators_++; }
  void free_later(Retired retired);
  int64_t communicators_to_free();
  /// Whether enough communicators were dropped since the last look to pay for another. MPICH has at most 2,048 at a time.
  bool wants_to_free();
  /// Frees the queued ones that have one member: nobody else takes part.
  void free_communicators_of_one();
  /// Frees the queued communicators, oldest first. Collective over each of them. For the end: nobody makes others.
  void free_communicators();
  /// Frees those all of whose members are in `comm` and have queued them. Collective.
  void free_communicators_queued_everywhere(const Communicator& comm);

  /// Completes what was dropped and frees what was queued; aborts the job where that fails. Nothing happens the second time.
  void close();
  /// Lets go of everything without touching it: buffers of messages that may still be on their way are leaked, not freed.
  void abandon();

 private:
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
  size_t stay_ = 0;  // of those, at the last look
  Engine engine_;    // last: its operations hold communicators
};

/// What members of a subset that is to be made tell each other; see rendezvous.cpp.
struct RendezvousMessage {
  enum class Kind : int32_t { come, ask, stay, go, nothing };
  Kind kind = Kind::come;
  uint64_t list = 0;     // a hash of the members
  uint64_t attempt = 0;  // of the one that is not the first
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
  uint64_t key = 0;  // drawn when it was made; the same on all members
  int rank = 0;
  int size = 1;
  std::vector<int> neighbours;  // ranks of this node, ascending; empty: nobody has asked MPI yet
  std::string name;
  std::shared_ptr<Runtime> runtime;
  std::shared_ptr<CommunicatorState> parent;  // whose revocation is ours too

  StartQueue collective_calls;
  StartQueue messages;
  TrafficCounters traffic;

  /// Messages with a label that this rank receives from one rank with one tag: one after the other.
  struct Turns {
    std::atomic<int64_t> taken = 0;
    std::atomic<int64_t> over = 0;
  };
  std::shared_ptr<Turns> turns_of(int from, int tag);

  // Used under the engine's lock.
  /// Whether messages that nobody receives, and nobody counts, may have been sent. Then this one is freed when no other is made any more; see
  /// Traffic.
  bool may_hold_leftovers = false;
  std::vector<std::shared_ptr<Transfer>> announcements;  // that may not have left
  std::vector<std::shared_ptr<void>> kept;               // transfers that failed, with their memory, which others may still touch
  uint64_t calls = 0;                                    // collective calls begun
  uint64_t finished = 0;                                 // and ended
  Call last_call;                                        // the one that began last
  std::string occasion;                                  // see set_activity()
  std::shared_ptr<Board> board;
  std::map<int, LastSeen> notes;  // what ranks wrote of themselves while they waited
  std::atomic<bool> revoked = false;
  std::string revoked_because;
  uint64_t meetings = 0;                  // attempts of this rank at a subset
  std::map<int, RendezvousMessage> came;  // who wants one of which this rank is the first

  std::shared_ptr<void> attachment;

  std::mutex turns_mutex;
  std::map<std::pair<int, int>, std::shared_ptr<Turns>> turns;  // by rank and tag

  void mark_revoked(const std::string& because);
  /// Writes on the board that this rank makes no further call. Not where a revocation tells the others, or may be on its way: while unwinding.
  void leave() noexcept;
  /// This one or the nearest it was made from that is revoked; null if none.
  const CommunicatorState* revoked_ancestor() const noexcept;
};

/// MPI makes communicators by calls that cannot be interrupted. So their members meet first, which can be; then the call is short.
void meet(const Communicator& comm);

/// Asks MPI who shares memory with this rank of `comm`, which all members have just come to. Ascending.
std::vector<int> find_neighbours(const CommunicatorState& comm);

/// The ranks that share memory with this one, in their order in `comm`; the caller frees it. Collective.
MPI_Comm make_node_handle(const Communicator& comm);

/// Describes `handle`, which it takes over when `owned`; its members then now and then free what they have dropped, for programs that make
/// communicators without end. @param parent null: none.
std::shared_ptr<CommunicatorState> make_communicator_state(MPI_Comm handle, bool owned, std::string name, std::shared_ptr<Runtime> runtime,
                                                           std::shared_ptr<CommunicatorState> parent);

}  // namespace tw::mpi
