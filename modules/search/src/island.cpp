// SPDX-License-Identifier: Apache-2.0
#include "island.hpp"

#include <utility>

namespace tw::search {
namespace {
constexpr uint64_t migration_stream = uint64_t{1} << 63;  // first stream of random numbers for migration; proposals and trials have the streams below
}  // namespace

Island::Island(const Place& place, Post& post, std::optional<JournalWriter>& journal, std::function<void(const Individual&)> on_new)
    : place_(place), post_(post), journal_(journal), on_new_(std::move(on_new)) {}

/// Space::starts() come first; the propagator does not propose them.
Proposal Island::propose(int64_t trial) {
  const std::vector<std::vector<double>>& starts = place_.space.starts();
  if (trial < static_cast<int64_t>(starts.size())) return {.values = starts[static_cast<size_t>(trial)], .tag = {.run = -1, .index = -1}};
  CounterRng random(place_.options.seed, static_cast<uint64_t>(trial));
  return propagator_->ask(population_, random);
}

void Island::absorb(const Individual& individual) {
  const bool is_new = population_.add(individual);
  const bool is_here = presence_.arrives(individual.trial, individual.moves);
  if (is_new) {
    propagator_->tell(individual);
    if (!is_here) population_.deactivate(individual.trial);
    on_new_(individual);
  } else if (is_here) {
    population_.activate(individual.trial);
  }
}

void Island::remove(int64_t trial, int32_t moves) {
  if (presence_.departs(trial, moves)) population_.deactivate(trial);
}

void Island::end(const Individual& individual) {
  absorb(individual);
  if (individual.has_comparable_loss()) residents_.add(individual);
  tell(ResultMessage{individual});
  migrate(individual.trial);
}

void Island::migrate(int64_t trial) {
  const MigrationOptions& options = place_.options.migration;
  CounterRng random(place_.options.seed, migration_stream | static_cast<uint64_t>(trial));
  const std::optional<int> to = destination(options, place_.island, place_.layout.islands(), random);
  if (!to || residents_.empty()) return;
  Individual emigrant = residents_.chosen(options.emigrant, random);
  emigrant.moves = presence_.moves(emigrant.trial) + 1;
  if (!options.copies) leave(emigrant.trial);  // before sending: a full outbox is sent immediately, and the journal must have the departure by then
  post_.send(ImmigrantMessage{.individual = emigrant, .replaces = options.copies}, place_.layout.host_of(emigrant.trial, *to));
}

/// A resident no longer counts on the island.
void Island::leave(int64_t trial) {
  const DepartureMessage departure{.trial = trial, .moves = presence_.moves(trial)};
  residents_.remove(trial);
  remove(trial, departure.moves);
  if (journal_) journal_->note(Record::Kind::departure, trial, departure.moves);
  tell(departure);
}

void Island::take(const ResultMessage& message) {
  if (journal_) journal_->note(Record::Kind::arrival, message.individual.trial, message.individual.moves);
  absorb(message.individual);
}

void Island::take(const DepartureMessage& message) {
  if (journal_) journal_->note(Record::Kind::departure, message.trial, message.moves);
  remove(message.trial, message.moves);
}

/// The individual becomes a resident, and the other workers of the island are informed. A second copy of a known individual is ignored: it would
/// replace itself.
void Island::take(const ImmigrantMessage& message, int from) {
  const Individual& individual = message.individual;
  if (message.replaces && population_.find(individual.trial) != nullptr) return;
  if (message.replaces && !residents_.empty()) {
    CounterRng random(place_.options.seed, migration_stream | static_cast<uint64_t>(individual.trial));
    leave(Individual(residents_.chosen(place_.options.migration.replaced, random)).trial);
  }
  if (journal_) journal_->adopt(individual, place_.layout.island_of(from));
  absorb(individual);
  residents_.add(individual);
  tell(ResultMessage{individual});
}

void Island::tell(const Message& message) {
  post_.send_all(message, place_.layout.first_worker(place_.island), place_.layout.first_worker(place_.island + 1));
}

}  // namespace tw::search
