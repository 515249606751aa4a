// SPDX-License-Identifier: Apache-2.0
#include "rendezvous.hpp"

#include <atomic>
#include <list>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/hash.hpp>
#include <tw/mpi/work.hpp>

namespace tw::mpi {
namespace {

/// a. Each member sends `arrive` to the first member (the leader), with the number of its attempt.
/// b. When the leader has heard from all, it sends each an `ask`: are you still here?
/// c. A member that answers `stay` can no longer give up: it waits for the decision. One that has given up does not answer, or arrives again.
/// d. When all have answered, the leader sends `proceed`; if its time runs out first, it sends `cancel`.
class Rendezvous : public Transfer {
 public:
  Rendezvous(CommunicatorState& comm, const std::vector<Rank>& members, std::chrono::milliseconds timeout, std::shared_ptr<std::atomic<bool>> over)
      : comm_(comm), members_(members), timeout_(timeout), over_(std::move(over)), attempt_(++comm.meetings), guests_(members.size()) {
    list_ = content_hash({reinterpret_cast<const char*>(members_.data()), members_.size() * sizeof(Rank)});
    if (!leads()) send(members_[0], RendezvousMessage::Kind::arrive, attempt_);
    comm_.may_hold_leftovers = true;  // a member that gives up never receives the messages sent to it afterwards
  }

  bool advance() override {
    listen();
    if (!decided_) decided_ = leads() ? lead() : may_proceed_;
    if (!decided_ && *over_ && !(committed_ && !leads())) give_up();
    return decided_ && all_sent();
  }

 private:
  struct Guest {
    uint64_t asked = 0;  // the attempt that was asked; 0: none yet
    bool stays = false;
  };

  bool leads() const noexcept { return comm_.rank == members_[0]; }

  // Arrivals are stored in `comm_`, where a later rendezvous finds them too: the member may have come for that one.
  void listen() {
    while (true) {
      int arrived = 0;
      MPI_Status status;
      check(MPI_Iprobe(MPI_ANY_SOURCE, subset_tag, comm_.handle, &arrived, &status), "MPI_Iprobe", comm_.name);
      if (arrived == 0) return;
      RendezvousMessage message;
      check(MPI_Recv(&message, sizeof message, MPI_BYTE, status.MPI_SOURCE, subset_tag, comm_.handle, MPI_STATUS_IGNORE), "MPI_Recv", comm_.name);
      handle(message, status.MPI_SOURCE);
    }
  }

  void handle(const RendezvousMessage& message, int from) {
    switch (message.kind) {
      case RendezvousMessage::Kind::arrive: comm_.arrivals[from] = message; break;
      case RendezvousMessage::Kind::stay:
        for (size_t i = 1; leads() && i < members_.size(); ++i) {
          if (members_[i] == from && guests_[i].asked == message.attempt) guests_[i].stays = true;
        }
        break;
      case RendezvousMessage::Kind::ask:
        if (message.attempt != attempt_) break;  // an attempt that this rank has given up
        committed_ = true;
        send(from, RendezvousMessage::Kind::stay, attempt_);
        break;
      case RendezvousMessage::Kind::proceed: may_proceed_ = may_proceed_ || message.attempt == attempt_; break;
      case RendezvousMessage::Kind::cancel:
        if (message.attempt == attempt_) throw Error(not_all_arrived());
    }
  }

  // True when all members have answered `stay`.
  bool lead() {
    for (size_t i = 1; i < members_.size(); ++i) {
      const auto note = comm_.arrivals.find(members_[i]);
      if (note == comm_.arrivals.end() || note->second.list != list_) return false;
    }
    bool all_stay = true;
    for (size_t i = 1; i < members_.size(); ++i) {
      const uint64_t attempt = comm_.arrivals[members_[i]].attempt;
      if (guests_[i].asked != attempt) {
        guests_[i] = {.asked = attempt, .stays = false};
        send(members_[i], RendezvousMessage::Kind::ask, attempt);
      }
      all_stay = all_stay && guests_[i].stays;
    }
    if (all_stay) send_to_all(RendezvousMessage::Kind::proceed);
    return all_stay;
  }

  void give_up() {
    if (leads()) send_to_all(RendezvousMessage::Kind::cancel);
    throw Error(not_all_arrived());
  }

  std::string not_all_arrived() const {
    return concat("not all of the ", members_.size(), " members called Communicator::subset() on '", comm_.name, "' within ", timeout_.count(),
                  " ms");
  }

  void send_to_all(RendezvousMessage::Kind kind) {
    for (size_t i = 1; i < members_.size(); ++i) {
      if (guests_[i].asked == 0) continue;
      if (comm_.arrivals[members_[i]].attempt == guests_[i].asked) comm_.arrivals.erase(members_[i]);  // it may have come again, for another list
      send(members_[i], kind, guests_[i].asked);
    }
  }

  void send(int to, RendezvousMessage::Kind kind, uint64_t attempt) {
    sent_.push_back({.kind = kind, .list = list_, .attempt = attempt});
    requests_.emplace_back();
    check(MPI_Isend(&sent_.back(), sizeof(RendezvousMessage), MPI_BYTE, to, subset_tag, comm_.handle, &requests_.back()), "MPI_Isend", comm_.name);
  }

  bool all_sent() {
    int done = 0;
    check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall", comm_.name);
    return done != 0;
  }

  CommunicatorState& comm_;  // kept alive by the operation
  const std::vector<Rank> members_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<std::atomic<bool>> over_;  // this rank's time is up
  const uint64_t attempt_;
  uint64_t list_ = 0;  // hash of the members
  bool committed_ = false;
  bool may_proceed_ = false;
  bool decided_ = false;
  std::vector<Guest> guests_;  // used by the leader; by position among the members
  std::list<RendezvousMessage> sent_;
  std::vector<MPI_Request> requests_;
};

}  // namespace

void rendezvous(const std::shared_ptr<CommunicatorState>& comm, const std::vector<Rank>& members, std::chrono::milliseconds timeout) {
  const auto over = std::make_shared<std::atomic<bool>>(false);
  auto operation = std::make_shared<Operation>();
  operation->call = {.collective = Collective::make_communicator};
  operation->comm = comm;
  operation->transfer = std::make_unique<Rendezvous>(*comm, members, timeout, over);
  operation->survives_revocation = true;
  operation->of_all = false;
  comm->runtime->engine().add(operation);
  Work work(operation);
  if (work.wait_for(timeout)) return;
  *over = true;
  work.wait();  // ends at once, or when the leader decides
}

}  // namespace tw::mpi
