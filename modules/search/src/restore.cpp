// SPDX-License-Identifier: Apache-2.0
// How a worker restores its state at the end of the journal. past.hpp reads the journal.
#include <algorithm>
#include <set>
#include <span>
#include <tuple>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/log.hpp>

#include "end_marks.hpp"
#include "gaps.hpp"
#include "known_results.hpp"
#include "proposer.hpp"
#include "worker.hpp"

namespace tw::search {
namespace {

std::vector<Individual> results_to_begin_with(const Place& place) {
  if (place.options.warm_start.empty()) return {};
  KnownResults known = read_known_results(place.options.warm_start, place.space, place.options.objectives);
  if (place.worker == 0) {
    log_info("the search begins with ", known.individuals.size(), " results from ", place.options.warm_start.string(), "; left out: ", known.skipped,
             known.skipped > 0 ? " (without a loss, outside the space, or violating its constraints)" : "");
  }
  return std::move(known.individuals);
}

}  // namespace

void Worker::restore() {
  const std::filesystem::path& folder = place_.options.journal;
  const JournalHeader own = header_of(place_);
  Past past = past_of(read_past(folder, own), own, marked_workers(folder), place_.options.migration.copies);
  if (!past.gap.empty() && place_.worker == 0) {
    log_warning("the journal in ", folder.string(), " is incomplete: ", past.gap,
                ". The search keeps all other trials, and continues as it would with another number of ranks");
  }
  const bool begins = past.all.next_trial == 0;
  if (begins) past.all.known = results_to_begin_with(place_);
  rebuild(past);
  workers_.barrier();  // all workers have read before any writes
  continue_journal(past, begins);
  catch_up(past);
  requeue(past);
}

/// Restores the propagator, the scheduler and the island to their states at the end of this worker's file.
void Worker::rebuild(Past& past) {
  first_trial_ = past.header.first_trial;
  // Each layout has its own seed; otherwise, propagators that depend on the seed alone would propose the same again.
  Proposer proposer = proposer_of(place_.options, {.space = place_.space,
                                                   .evaluations = past.header.evaluations,
                                                   .seed = place_.options.seed + static_cast<uint64_t>(first_trial_ + place_.island),
                                                   .worker = place_.worker - place_.layout.first_worker(place_.island),
                                                   .workers = place_.layout.workers_of(place_.island),
                                                   .island = place_.island,
                                                   .objectives = std::max<size_t>(1, place_.options.objectives.size())});
  past.header.propagator_reason = std::move(proposer.about);
  island_.set_propagator(std::move(proposer.propagator));
  for (const Individual& each : past.all.known) island_.absorb(each);
  // Reports come before the ends of their trials, as in the earlier run. Repeated trials will report again.
  for (const Report& report : past.all.reports) {
    if (is_of_island(past.all.ended.at(report.trial))) trials_.scheduler().observe(report, /*worker=*/-1);
  }
  for (const auto& [trial, individual] : past.ended_before()) {
    if (!is_of_island(individual)) continue;
    island_.absorb(individual);
    if (individual.has_comparable_loss() && place_.layout.host_of(trial, place_.island) == place_.worker) island_.residents().add(individual);
  }
  if (const JournalFile* mine = past.own_file()) replay(*mine, past.all);
}

/// Opens this worker's file. A new file notes all earlier trials, so that gap_in() finds out if other files lose some of them.
void Worker::continue_journal(const Past& past, bool begins) {
  const JournalFile* mine = past.own_file();
  if (!place_.options.journal.empty()) journal_.emplace(place_.options.journal, past.header, mine == nullptr ? 0 : mine->bytes);
  if (journal_ && (begins || mine == nullptr)) {
    for (const Individual& each : past.all.known) journal_->record_known(each);
  }
  if (place_.worker == 0) queue_.put_back(past.all);
  for (const auto& [trial, individual] : past.all.ended) {
    const bool is_known = population().find(trial) != nullptr;
    if (!is_of_island(individual) || (is_known && mine != nullptr)) continue;
    if (!is_known) island_.absorb(individual);
    if (journal_) journal_->note(Record::Kind::arrival, trial, individual.moves);
  }
}

/// Records the process losses of trials that this worker repeats, and sets up the trials to repeat and the remaining budget.
void Worker::requeue(const Past& past) {
  for (const auto& [trial, individual] : past.all.ended) ++past_counts_[static_cast<size_t>(individual.state)];
  past_ = std::ssize(past.all.ended);
  for (const Interrupted& each : past.all.interrupted) {
    if (journal_ && each.was_in_flight && past.worker_for(each) == place_.worker) journal_->record_loss(each.individual.trial, each.blame);
  }
  write_journal();
  Backlog backlog = backlog_of(past, place_.options.evaluations, place_.options.max_attempts);
  turns_ = std::move(backlog.turns);
  for (Interrupted& each : backlog.interrupted) {
    each.individual.worker = place_.worker;  // the worker, and perhaps the island, are different in another layout
    each.individual.island = place_.island;
    interrupted_.push_back(std::move(each));
  }
  quota_ = Quota(backlog.evaluations, place_.worker, place_.layout.workers(), std::ssize(interrupted_));
}

/// Repeats the recorded actions of this worker, including its proposals.
void Worker::replay(const JournalFile& mine, const History& all) {
  const auto known = [&](int64_t trial) -> const Individual* {
    const auto found = all.ended.find(trial);
    return found == all.ended.end() ? nullptr : &found->second;
  };
  for (const Record& record : mine.records) {
    const int64_t trial = record.individual.trial;
    switch (record.kind) {
      case Record::Kind::start: {
        if (record.again) break;
        ++proposed_;
        if (is_queued(record.individual.tag)) break;
        if (!same_values(island_.propose(trial).values, record.individual.values))
          throw FileError(
              mine.path, 0,
              concat("has other values of trial ", trial, " than the propagator proposes: continue with the propagator that began the search"));
        break;
      }
      case Record::Kind::end:
        island_.absorb(all.ended.at(trial));
        if (all.ended.at(trial).has_comparable_loss()) island_.residents().add(all.ended.at(trial));
        break;
      case Record::Kind::report: break;
      case Record::Kind::arrival:
        if (known(trial) != nullptr) {
          Individual individual = *known(trial);
          individual.moves = record.individual.moves;
          island_.absorb(individual);
        }
        break;
      case Record::Kind::departure:
        island_.remove(trial, record.individual.moves);
        island_.residents().remove(trial);
        break;
      case Record::Kind::adoption:
        island_.absorb(record.individual);
        island_.residents().add(record.individual);
        break;
      case Record::Kind::pause:
      case Record::Kind::resume:
      case Record::Kind::copy:
      case Record::Kind::loss:
      case Record::Kind::known: break;
    }
  }
}

/// Adds and removes individuals that had come to the island, or left it, before the job ended, but after this worker's last message about it.
void Worker::catch_up(const Past& past) {
  using Kind = Record::Kind;
  std::set<std::tuple<Kind, int64_t, int32_t>> heard;
  std::vector<const Record*> others;
  for (const JournalFile& file : past.files_of_epoch()) {
    if (place_.layout.island_of(file.header.worker) != place_.island) continue;
    for (const Record& record : file.records) {
      if (file.header.worker == place_.worker) {
        heard.emplace(record.kind, record.individual.trial, record.individual.moves);
      } else if (record.kind == Kind::adoption || record.kind == Kind::departure) {
        others.push_back(&record);
      }
    }
  }
  for (const Record* record : others) {
    const Kind kind = record->kind == Kind::adoption ? Kind::arrival : Kind::departure;
    const Individual& individual = record->individual;
    if (!heard.emplace(kind, individual.trial, individual.moves).second) continue;
    if (kind == Kind::arrival) island_.absorb(individual);
    if (kind == Kind::departure) {
      island_.remove(individual.trial, individual.moves);
      island_.residents().remove(individual.trial);  // if this worker's own file was cut off
    }
    journal_->note(kind, individual.trial, individual.moves);
  }
  if (!place_.options.migration.copies) bring_home(past);  // with copies, an individual that left was replaced by a copy
}

/// Individuals that were on their way to another island when the job ended count on this island again.
void Worker::bring_home(const Past& past) {
  std::set<int> workers;
  for (int worker = 0; worker < place_.layout.workers(); ++worker) {
    if (place_.layout.island_of(worker) == place_.island) workers.insert(worker);
  }
  for (const auto& [trial, moves] : left_and_not_arrived(past.files_of_epoch(), workers)) {
    Individual individual = past.all.ended.at(trial);
    individual.moves = moves + 1;
    island_.absorb(individual);
    if (place_.layout.host_of(trial, place_.island) == place_.worker) {
      island_.residents().add(individual);
      journal_->adopt(individual, place_.island);
    } else {
      journal_->note(Record::Kind::arrival, trial, individual.moves);
    }
  }
}

}  // namespace tw::search
