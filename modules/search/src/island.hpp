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

/// A worker's island, as far as the worker knows it: who counts there, who of them are its residents, which means that it answers for them, and who
/// comes and goes.
class Island {
 public:
  /// @param journal may be given its writer later. @param on_new called for each individual that was not known before
  Island(const Place& place, Post& post, std::optional<JournalWriter>& journal, std::function<void(const Individual&)> on_new);

  /// Before the first proposal and the first individual.
  void breed_by(std::unique_ptr<Propagator> propagator) { propagator_ = std::move(propagator); }
  Proposal propose(int64_t trial);
  const Population& population() const noexcept { return population_; }

  // What is so, whoever says it.

  void absorb(const Individual& individual);
  void part_with(int64_t trial, int32_t moves);
  Residents& residents() noexcept { return residents_; }

  // What happens.

  /// A trial of this worker has ended. One of its residents may move on.
  void end(const Individual& individual);
  void take(const ResultMessage& message);
  void take(const DepartureMessage& message);
  void take(const ImmigrantMessage& message, int from);
  /// To its other workers.
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
