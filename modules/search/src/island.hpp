// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <tw/evolution/population.hpp>
#include <tw/evolution/propagator.hpp>
#include <tw/search/journal.hpp>

#include "migration.hpp"
#include "place.hpp"
#include "post.hpp"
#include "presence.hpp"

namespace tw::search {

/// A worker's island, as far as the worker knows it: the individuals that count there, and which of them are this worker's residents, for which it is
/// responsible. Also sends and receives individuals that move between islands.
class Island {
 public:
  /// @param journal may get its writer later. @param on_new called for each individual that was not known before
  Island(const Place& place, Post& post, std::optional<JournalWriter>& journal, std::function<void(const Individual&)> on_new);

  /// Call it before the first proposal and the first individual.
  void set_propagator(std::unique_ptr<Propagator> propagator) { propagator_ = std::move(propagator); }
  Proposal propose(int64_t trial);
  const Population& population() const noexcept { return population_; }

  // Updates of the state, which send no messages.

  void absorb(const Individual& individual);
  void remove(int64_t trial, int32_t moves);
  Residents& residents() noexcept { return residents_; }

  // Events, which also update the journal and send messages.

  /// A trial of this worker has ended. One of this worker's residents may then move to another island.
  void end(const Individual& individual);
  void take(const ResultMessage& message);
  void take(const DepartureMessage& message);
  void take(const ImmigrantMessage& message, int from);
  /// Sends a message to the other workers of the island.
  void tell(const Message& message);

 private:
  void migrate(int64_t trial);
  void leave(int64_t trial);

  const Place place_;
  Post& post_;
  std::optional<JournalWriter>& journal_;
  std::function<void(const Individual&)> on_new_;
  std::unique_ptr<Propagator> propagator_;
  Population population_;
  Presence presence_;
  Residents residents_;
};

}  // namespace tw::search
