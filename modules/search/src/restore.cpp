// SPDX-License-Identifier: Apache-2.0
// How a worker gets to where the journal ends.
#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <tuple>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/log.hpp>
#include <tw/evolution/automatic.hpp>
#include <tw/evolution/distinct.hpp>
#include <tw/evolution/sampling.hpp>

#include "end_marks.hpp"
#include "gaps.hpp"
#include "known_results.hpp"
#include "worker.hpp"

namespace tw::search {
namespace {

std::unique_ptr<Propagator> propagator_of(const SearchOptions& options, const Seat& seat) {
  if (options.propagator) {
    auto propagator = options.propagator(seat);
    TW_EXPECTS(propagator != nullptr, "propagator gave none for worker ", seat.worker, " of island ", seat.island);
    return propagator;
  }
  // All members of a population begin before one has ended: there is nothing to learn from.
  if (std::holds_alternative<PopulationTrainingOptions>(options.scheduler))
    return std::make_unique<Sobol>(seat.space, seat.seed, Share{.first = seat.worker, .stride = seat.workers});
  return automatic(seat.space, seat.evaluations, seat.seed, seat.worker, seat.workers, seat.objectives);
}

std::string breeding_of(const SearchOptions& options, const Seat& seat) {
  if (options.propagator) return "the propagator that was asked for";
  if (std::holds_alternative<PopulationTrainingOptions>(options.scheduler)) return "sobol: all members of a population begin before one has ended";
  const Choice choice = choose(seat.space, seat.evaluations > 0 ? seat.evaluations : std::numeric_limits<int64_t>::max(), seat.objectives);
  return concat(name_of(choice.method), ": ", choice.reason);
}

std::unique_ptr<Propagator> breeder_of(const SearchOptions& options, const Seat& seat) {
  auto propagator = propagator_of(options, seat);
  if (options.repeats) return propagator;
  return std::make_unique<Distinct>(seat.space, std::move(propagator));
}

std::vector<Individual> results_to_begin_with(const Place& place) {
  if (place.options.warm_start.empty()) return {};
  KnownResults known = read_known_results(place.options.warm_start, place.space, place.options.objectives);
  if (place.worker == 0) {
    log_info("begins with ", known.individuals.size(), " results of ", place.options.warm_start.string(), "; left out: ", known.skipped,
             known.skipped > 0 ? ", without a loss, or not in the space and its constraints" : "");
  }
  return std::move(known.individuals);
}

std::vector<JournalFile> before_epoch(const std::vector<JournalFile>& files, int epoch) {
  std::vector<JournalFile> earlier;
  std::copy_if(files.begin(), files.end(), std::back_inserter(earlier), [&](const JournalFile& file) { return file.header.epoch < epoch; });
  return earlier;
}

/// "[error, seconds]"
std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& each : names) text += (text.empty() ? "" : ", ") + each;
  return '[' + text + ']';
}

}  // namespace

void Worker::restore() {
  JournalHeader header{.space = place_.space.hash(), .seed = place_.options.seed, .worker = place_.worker, .objectives = place_.options.objectives};
  for (int island = 0; island < place_.layout.islands(); ++island) header.islands.push_back(place_.layout.workers_of(island));
  for (int worker = 0; worker < place_.layout.workers(); ++worker) header.ranks.push_back(place_.layout.ranks_of(worker));
  const std::vector<JournalFile> files = place_.options.journal.empty() ? std::vector<JournalFile>() : read_journal(place_.options.journal);
  for (const JournalFile& file : files) {
    if (file.header.space != header.space) throw FileError(file.path, 0, "is the journal of a search over another space");
    if (file.header.seed != header.seed)
      throw FileError(file.path, 0, concat("is the journal of a search with seed ", file.header.seed, ", not ", header.seed));
    if (file.header.objectives != header.objectives) {
      throw FileError(
          file.path, 0,
          concat("is the journal of a search with the objectives ", list_text(file.header.objectives), ", not ", list_text(header.objectives)));
    }
  }
  History all = history_of(files);
  all.interrupted = judged(std::move(all.interrupted), marked_workers(place_.options.journal));
  const auto layout_of = [](const JournalHeader& each) { return std::tie(each.islands, each.ranks); };
  const bool same_layout = !files.empty() && layout_of(files.back().header) == layout_of(header);
  const std::string gap = same_layout ? gap_in(files, place_.options.migration.copies) : "";
  if (!gap.empty() && place_.worker == 0)
    log_warning("the journal in ", place_.options.journal.string(), " is not whole: ", gap,
                ", as after a cut. What it has is kept, and the search goes on as on another number of ranks");
  const bool replays = same_layout && gap.empty();
  header.epoch = replays ? all.epochs - 1 : all.epochs;
  header.first_trial = replays ? files.back().header.first_trial : all.next_trial;
  header.evaluations = replays ? files.back().header.evaluations : place_.options.evaluations;
  first_trial_ = header.first_trial;
  // Another seed for each layout, or what goes by the seed alone would try the same again.
  const Seat seat{.space = place_.space,
                  .evaluations = header.evaluations,
                  .seed = place_.options.seed + static_cast<uint64_t>(first_trial_ + place_.island),
                  .worker = place_.worker - place_.layout.first_worker(place_.island),
                  .workers = place_.layout.workers_of(place_.island),
                  .island = place_.island,
                  .objectives = std::max<size_t>(1, place_.options.objectives.size())};
  header.breeding = breeding_of(place_.options, seat);
  island_.breed_by(breeder_of(place_.options, seat));

  const bool begins = all.next_trial == 0;
  if (begins) all.known = results_to_begin_with(place_);
  for (const Individual& each : all.known) island_.absorb(each);
  const auto island_of = [&](const Individual& individual) { return individual.island % place_.layout.islands(); };
  // Before what they came to, as it was; trials that are repeated will report again.
  for (const Report& report : all.reports) {
    if (island_of(all.ended.at(report.trial)) == place_.island) trials_.scheduler().observe(report, /*worker=*/-1);
  }
  for (const auto& [trial, individual] : history_of(before_epoch(files, header.epoch)).ended) {
    if (island_of(individual) != place_.island) continue;
    island_.absorb(individual);
    if (individual.counts() && place_.layout.host_of(trial, place_.island) == place_.worker) island_.wards().add(individual);
  }
  const auto mine = std::find_if(files.begin(), files.end(),
                                 [&](const JournalFile& file) { return file.header.epoch == header.epoch && file.header.worker == place_.worker; });
  if (mine != files.end()) replay(*mine, all);

  workers_.barrier();  // all have read before anyone writes
  if (!place_.options.journal.empty()) journal_.emplace(place_.options.journal, header, mine == files.end() ? 0 : mine->bytes);
  if (journal_ && (begins || mine == files.end())) {
    for (const Individual& each : all.known) journal_->know(each);
  }
  if (place_.worker == 0) queue_.put_back(all);
  // What others ended and this one had not heard of. A new file names all that went before: what is cut from others would not be missed otherwise.
  for (const auto& [trial, individual] : all.ended) {
    const bool is_known = population().find(trial) != nullptr;
    if (island_of(individual) != place_.island || (is_known && mine != files.end())) continue;
    if (!is_known) island_.absorb(individual);
    if (journal_) journal_->note(Record::Kind::arrival, trial, individual.moves);
  }
  const std::span same_epoch(std::ranges::find(files, header.epoch, [](const JournalFile& file) { return file.header.epoch; }), files.end());
  catch_up(same_epoch);
  bring_home(same_epoch, all);
  for (const auto& [trial, individual] : all.ended) ++past_counts_[static_cast<size_t>(individual.state)];
  past_ = static_cast<int64_t>(all.ended.size());
  constexpr int64_t no_limit = int64_t{1} << 60;
  const int64_t total = place_.options.evaluations > 0 ? std::max<int64_t>(0, place_.options.evaluations - past_) : no_limit;
  for (const Interrupted& each : all.interrupted) {
    if (journal_ && each.was_in_flight && who_repeats(each, all, replays) == place_.worker) journal_->lose(each.individual.trial, each.blame);
  }
  write_journal();
  const int64_t repeated = std::min(total, static_cast<int64_t>(all.interrupted.size()));
  all.interrupted.resize(static_cast<size_t>(repeated));
  turns_ = Turns(all.interrupted, place_.options.attempts);
  for (const Interrupted& each : all.interrupted) {
    if (who_repeats(each, all, replays) == place_.worker) queue(each);
  }
  quota_ = Quota(total - repeated, place_.worker, place_.layout.workers(), static_cast<int64_t>(interrupted_.size()));
}

/// Does again what the file says that this worker did; what it bred then, it breeds now.
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
        ++bred_;
        if (is_queued(record.individual.tag)) break;
        if (!same_values(island_.propose(trial).values, record.individual.values))
          throw FileError(mine.path, 0, concat("trial ", trial, " would not be bred again as it was: the propagator is another one"));
        break;
      }
      case Record::Kind::end:
        island_.absorb(all.ended.at(trial));
        if (all.ended.at(trial).counts()) island_.wards().add(all.ended.at(trial));
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
        island_.part_with(trial, record.individual.moves);
        island_.wards().remove(trial);
        break;
      case Record::Kind::adoption:
        island_.absorb(record.individual);
        island_.wards().add(record.individual);
        break;
      case Record::Kind::pause:
      case Record::Kind::resume:
      case Record::Kind::copy:
      case Record::Kind::loss:
      case Record::Kind::known: break;
    }
  }
}

/// Who had come to the island, and left it, without this worker's having been told when the job ended.
void Worker::catch_up(std::span<const JournalFile> files) {
  using Kind = Record::Kind;
  std::set<std::tuple<Kind, int64_t, int32_t>> heard;
  std::vector<const Record*> others;
  for (const JournalFile& file : files) {
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
      island_.part_with(individual.trial, individual.moves);
      island_.wards().remove(individual.trial);  // this worker's own file was cut
    }
    journal_->note(kind, individual.trial, individual.moves);
  }
}

/// Who was on the way to another island when the job ended counts at home again.
void Worker::bring_home(std::span<const JournalFile> files, const History& all) {
  if (place_.options.migration.copies) return;  // who left made room for a copy
  std::set<int> workers;
  for (int worker = 0; worker < place_.layout.workers(); ++worker) {
    if (place_.layout.island_of(worker) == place_.island) workers.insert(worker);
  }
  for (const auto& [trial, moves] : left_and_not_arrived(files, workers)) {
    Individual individual = all.ended.at(trial);
    individual.moves = moves + 1;
    island_.absorb(individual);
    if (place_.layout.host_of(trial, place_.island) == place_.worker) {
      island_.wards().add(individual);
      journal_->adopt(individual, place_.island);
    } else {
      journal_->note(Record::Kind::arrival, trial, individual.moves);
    }
  }
}

/// The worker that had begun it, where that goes on with the same file.
int Worker::who_repeats(const Interrupted& interrupted, const History& all, bool replays) const {
  const bool has_worker = replays && interrupted.epoch == all.epochs - 1;
  return has_worker ? interrupted.worker : static_cast<int>(interrupted.individual.trial % place_.layout.workers());
}

void Worker::queue(Interrupted interrupted) {
  interrupted.individual.worker = place_.worker;  // in another layout it is another worker, perhaps on another island
  interrupted.individual.island = place_.island;
  interrupted_.push_back(std::move(interrupted));
}

}  // namespace tw::search
