// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw::search {

/// The ranks of a worker, which evaluate together.
class Team {
 public:
  /// Collective over `worker`.
  explicit Team(const Communicator& worker) : ranks_(worker.dup()), trial_(ranks_.dup()), verdicts_(trial_->dup()) { make_ready(); }

  int size() const { return ranks_.size(); }
  bool leads() const { return ranks_.rank() == 0; }

  /// A communicator that objectives never revoke.
  const Communicator& ranks() const { return ranks_; }
  /// The communicator of objectives.
  const Communicator& trial() const { return *trial_; }
  /// The communicator that broadcasts verdicts on reports. Revoked together with trial().
  const Communicator& verdicts() const { return *verdicts_; }
  /// Creates both again if a trial has revoked them, by failing or in a failure that it caught. Collective.
  void renew_revoked() {
    int64_t revoked = trial_->revoked() ? 1 : 0;  // other ranks may not know of it yet
    if (size() > 1) mpi::allreduce(ranks_, {&revoked, 1, ElementType::int64}, ReduceOp::max);
    if (revoked == 0) return;
    std::vector<Rank> all;
    for (int rank = 0; rank < size(); ++rank) all.emplace_back(rank);
    trial_ = ranks_.subset(all);
    verdicts_ = trial_->dup();
    make_ready();
  }

 private:
  /// The first use of a communicator calls MPI's own collectives on all ranks. If these end before a rank fails, MPI's communicator can be freed.
  void make_ready() const {
    if (size() > 1) barrier(*trial_);
  }

  Communicator ranks_;
  std::optional<Communicator> trial_;
  std::optional<Communicator> verdicts_;
};

}  // namespace tw::search
