// SPDX-License-Identifier: Apache-2.0
#include "stall.hpp"

#include <algorithm>
#include <cmath>
#include <tw/base/concat.hpp>
#include <tw/base/log.hpp>

#include "control.hpp"

namespace tw::mpi {
namespace {

std::string seconds(std::chrono::nanoseconds time) { return concat(std::round(std::chrono::duration<double>(time).count() * 10) / 10, " s"); }

std::optional<LastSeen> last_seen(const CommunicatorState& comm, int rank) {
  if (comm.board) {
    if (const auto seen = comm.board->last_seen(rank)) return seen;
  }
  const auto note = comm.notes.find(rank);
  return note == comm.notes.end() ? std::nullopt : std::optional(note->second);
}

// Whether `rank`, which is inside a call according to the board, is not waiting in it: a rank that had waited as long as this one would have
// announced its wait.
bool does_not_wait(const Operation& operation, int rank, const LastSeen& seen, std::chrono::milliseconds waited) {
  if (operation.number == 0 || seen.finished >= std::min(seen.calls, operation.number) || seen.idle < waited * 7 / 8) return false;
  const auto note = operation.comm->notes.find(rank);
  if (note == operation.comm->notes.end()) return true;
  const bool waits_for_message = note->second.calls == 0;
  return !waits_for_message && note->second.calls <= seen.finished;
}

// The rank in `other` of a rank of `comm`; MPI_UNDEFINED if it is not a member.
int rank_in(const CommunicatorState& other, const CommunicatorState& comm, int rank) {
  MPI_Group from = MPI_GROUP_NULL;
  MPI_Group to = MPI_GROUP_NULL;
  MPI_Comm_group(comm.handle, &from);
  MPI_Comm_group(other.handle, &to);
  int there = MPI_UNDEFINED;
  MPI_Group_translate_ranks(from, 1, &rank, to, &there);
  MPI_Group_free(&from);
  MPI_Group_free(&to);
  return there;
}

// Describes a call that `rank` has started on an ancestor communicator, and this rank has not: `rank` may be waiting there for this rank. Empty if
// there is none.
std::string call_elsewhere(const CommunicatorState& comm, int rank) {
  for (const CommunicatorState* state = comm.parent.get(); state != nullptr; state = state->parent.get()) {
    const int there = rank_in(*state, comm, rank);
    const auto seen = there == MPI_UNDEFINED ? std::nullopt : last_seen(*state, there);
    if (!seen || seen->calls <= state->calls || seen->finished >= seen->calls) continue;
    return concat(", and is in call ", seen->calls, " of '", state->name, "', ", seen->call.describe());
  }
  return "";
}

// A barrier without a number is the one in which ranks wait to leave MPI.
bool is_leaving(const Operation& operation) { return operation.number == 0 && operation.call.collective == Collective::barrier; }

// Whether `seen` waits in that barrier, too.
bool leaves(const LastSeen& seen) { return seen.has_released || (seen.calls == 0 && seen.call.collective == Collective::barrier); }

// Describes what `rank` does; empty if it waits in the same call.
std::string describe_other(const Operation& operation, int rank, std::chrono::milliseconds waited) {
  const auto seen = last_seen(*operation.comm, rank);
  if (seen && is_leaving(operation) && leaves(*seen)) return "";
  if (!seen) return concat("rank ", rank, " has not responded: it is computing, was stopped, or is waiting elsewhere");
  if (seen->calls == 0 && seen->call.collective != Collective::none) {
    return concat("rank ", rank, " waits elsewhere: last seen in ", seen->call.describe());
  }
  if (seen->has_released && seen->calls < operation.number) return concat("rank ", rank, " has left, after call ", seen->calls);
  const bool elsewhere = does_not_wait(operation, rank, *seen, waited);
  if (operation.number > 0 && seen->calls == operation.number && seen->call != operation.call) {
    return concat("rank ", rank, " is in another call: ", seen->call.describe());
  }
  if (operation.number > 0 && seen->calls >= operation.number) {
    return elsewhere ? concat("rank ", rank, " has begun this call and does not wait for it: it is computing, or was stopped") : "";
  }
  const std::string ago = seen->idle.count() > 0 ? concat(seconds(seen->idle), " ago ") : "";
  if (seen->calls == 0) return concat("rank ", rank, " is late: it has made no call yet", call_elsewhere(*operation.comm, rank));
  const char* where = seen->finished == seen->calls ? "leaving" : elsewhere ? "beginning" : "in";
  return concat("rank ", rank, " is late: last seen ", ago, where, " call ", seen->calls, ", ", seen->call.describe(),
                call_elsewhere(*operation.comm, rank));
}

// The activities set on this communicator and its ancestors, nearest first, one per line.
std::string activities_of(const CommunicatorState& comm) {
  std::string text;
  for (const CommunicatorState* state = &comm; state != nullptr; state = state->parent.get()) {
    if (!state->activity.empty()) text += "\n  in " + state->activity;
  }
  return text;
}

// Whether this rank reports the wait. Only the lowest of the waiting ranks does, because all of them would report the same.
bool reports(const Operation& operation, std::chrono::milliseconds waited) {
  if (operation.number == 0 && !is_leaving(operation)) return true;
  for (int rank = 0; rank < operation.comm->rank; ++rank) {
    const auto seen = last_seen(*operation.comm, rank);
    if (seen && is_leaving(operation) && leaves(*seen)) return false;
    if (seen && seen->calls == operation.number && seen->finished < seen->calls && !does_not_wait(operation, rank, *seen, waited)) return false;
  }
  return true;
}

}  // namespace

std::string explain_wait(const Operation& operation, std::chrono::milliseconds waited) {
  const CommunicatorState& comm = *operation.comm;
  std::string text = concat("rank ", comm.rank, " of '", comm.name, "' has waited ", seconds(waited), " in ");
  if (operation.number > 0) text += concat("call ", operation.number, ", ");
  text += operation.call.describe();
  text += activities_of(comm);
  for (int rank = 0; rank < comm.size; ++rank) {
    const bool concerned = operation.number > 0 || is_leaving(operation) || operation.call.peer == rank;
    const std::string line = rank == comm.rank || !concerned ? "" : describe_other(operation, rank, waited);
    if (!line.empty()) text += "\n  " + line;
  }
  return text;
}

std::string Stall::who_left(const Operation& operation, Clock::time_point now) {
  constexpr auto moment = std::chrono::seconds(1);
  const CommunicatorState& comm = *operation.comm;
  if (operation.number == 0 || !comm.board || now - first_begin_ < moment)
    return "";  // most waits are short, and reading the board slows the other ranks' cores
  for (int rank = 0; rank < comm.size; ++rank) {
    const auto seen = comm.board->last_seen(rank);
    if (!seen || !seen->has_released || seen->calls >= operation.number) continue;
    if (!saw_leave_) saw_leave_ = now;
    if (now - *saw_leave_ < moment) return "";
    return concat("rank ", rank, " has left '", comm.name, "' after call ", seen->calls, ", and rank ", comm.rank, " waits for it in call ",
                  operation.number, ", ", operation.call.describe(), ": do all ranks make the same number of steps? See Uneven and join()",
                  activities_of(comm));
  }
  return "";
}

// Ranks on other nodes cannot read our board: each waiting rank announces its wait to everyone, shortly before the first report.
std::string Stall::look(const Operation& operation, Clock::time_point now) {
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - begin_);
  if (!announced_ && waited > std::min(warning_, abort_) * 3 / 4) {
    announced_ = true;
    tell_waiting(*operation.comm, operation.call, operation.number);
  }
  if (!warned_ && waited > warning_) {
    warned_ = true;
    if (reports(operation, waited)) log_warning(explain_wait(operation, waited));
  }
  if (waited <= abort_ || !(reports(operation, waited) || waited > abort_ * 5 / 4)) return "";
  const std::string why = concat(explain_wait(operation, waited), "\n  this is longer than EnvironmentOptions::stall_abort");
  if (!operation.comm->runtime->is_guest()) Environment::abort(why + ": the job ends");
  return why;
}

}  // namespace tw::mpi
