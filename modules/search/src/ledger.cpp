// SPDX-License-Identifier: Apache-2.0
#include <tw/search/ledger.hpp>

#include <algorithm>
#include <map>
#include <tw/base/error.hpp>
#include <utility>

namespace tw::search {
namespace {

int island_of(const JournalHeader& header) {
  int island = 0;
  for (int32_t workers = 0; island < static_cast<int>(header.islands.size()); ++island) {
    workers += header.islands[static_cast<size_t>(island)];
    if (header.worker < workers) break;
  }
  return island;
}

class Reader {
 public:
  void read(const JournalFile& file) {
    const JournalHeader& header = file.header;
    int workers = 0;
    for (const int32_t each : header.islands) workers += each;
    ledger_.objectives = header.objectives;
    ledger_.propagator_reason = header.propagator_reason;
    ledger_.epochs = std::max(ledger_.epochs, header.epoch + 1);
    ledger_.workers = std::max(ledger_.workers, workers);
    ledger_.worker_ranks.resize(std::max(ledger_.worker_ranks.size(), header.ranks.size()));
    std::ranges::copy(header.ranks, ledger_.worker_ranks.begin());
    ledger_.islands = std::max(ledger_.islands, static_cast<int>(header.islands.size()));
    ledger_.next_trial = std::max(ledger_.next_trial, header.first_trial);
    for (const Record& record : file.records) {
      ledger_.next_trial = std::max(ledger_.next_trial, record.individual.trial + 1);  // even if its start was in another file that has lost it
      switch (record.kind) {
        case Record::Kind::start: begin(record, header); break;
        case Record::Kind::end: end(record); break;
        case Record::Kind::report: report(record); break;
        case Record::Kind::adoption:
          if (const int to = island_of(header); to != record.from)  // otherwise it was lost on its way, and returned to its island
            ledger_.migrations.push_back({record.individual.trial, record.from, to, header.worker, record.time});
          adopted_.emplace_back(record, header.epoch);
          break;
        case Record::Kind::pause: pause(record, true); break;
        case Record::Kind::resume: pause(record, false); break;
        case Record::Kind::copy: copy(record); break;
        case Record::Kind::loss: add_loss(record); break;
        case Record::Kind::known: known_.insert_or_assign(-record.individual.trial, record.individual); break;
        case Record::Kind::arrival:
        case Record::Kind::departure: break;
      }
    }
  }

  Ledger ledger() {
    for (const auto& [record, epoch] : adopted_) remember(record, epoch);
    for (auto& [trial, entry] : entries_) ledger_.trials.push_back(std::move(entry));
    for (auto& [number, individual] : known_) ledger_.known.push_back(std::move(individual));
    std::ranges::stable_sort(ledger_.migrations, {}, &Migration::time);
    return std::move(ledger_);
  }

 private:
  void begin(const Record& record, const JournalHeader& header) {
    LedgerEntry& entry = entries_[record.individual.trial];
    entry = {.individual = record.individual,
             .attempts = entry.attempts + 1,
             .losses = entry.losses,
             .sole_losses = entry.sole_losses,
             .blame = entry.blame,
             .epoch = header.epoch,
             .worker = header.worker,
             .begin = record.time,
             .last_activity = record.time};
  }

  void report(const Record& record) {
    LedgerEntry& entry = entries_.at(record.individual.trial);
    entry.reports.push_back({record.individual.trial, record.step, record.value});
    entry.last_activity = record.time;
  }

  void pause(const Record& record, bool paused) {
    LedgerEntry& entry = entries_.at(record.individual.trial);
    entry.paused = paused;
    if (paused) {
      entry.pauses.push_back({.from = record.time});
    } else if (!entry.pauses.empty()) {
      entry.pauses.back().to = record.time;
    }
    entry.last_activity = record.time;
  }

  void add_loss(const Record& record) {
    const auto found = entries_.find(record.individual.trial);
    if (found == entries_.end()) return;  // its start was in another file that has lost it
    LedgerEntry& entry = found->second;
    if (record.blame != Blame::none) ++entry.losses;
    if (record.blame == Blame::sole) ++entry.sole_losses;
    entry.blame = record.blame;
    entry.lost = true;
  }

  void copy(const Record& record) {
    entries_.at(record.individual.trial).copies.push_back({record.original, record.step, record.individual.values, record.time});
  }

  void end(const Record& record) {
    LedgerEntry& entry = entries_.at(record.individual.trial);
    if (!entry.copies.empty()) entry.individual.values = entry.copies.back().values;
    entry.individual.loss = record.individual.loss;
    entry.individual.objectives = record.individual.objectives;
    entry.individual.violation = record.individual.violation;
    entry.individual.state = record.individual.state;
    entry.individual.seconds = record.individual.seconds;
    entry.constraints = record.constraints;
    entry.message = record.message;
    entry.end = entry.last_activity = record.time;
  }

  /// If the file with its end was cut off, the file of the worker that adopted it still has all of it.
  void remember(const Record& adoption, int epoch) {
    LedgerEntry& entry = entries_[adoption.individual.trial];
    if (entry.has_ended()) return;
    entry.individual = adoption.individual;
    entry.individual.moves = 0;
    entry.attempts = std::max(entry.attempts, 1);
    entry.epoch = epoch;
    entry.worker = adoption.individual.worker;
    entry.end = entry.last_activity = adoption.time;
    entry.begin = adoption.time - adoption.individual.seconds;
  }

  std::map<int64_t, LedgerEntry> entries_;
  std::map<int64_t, Individual> known_;          // the same in every file
  std::vector<std::pair<Record, int>> adopted_;  // with the epoch
  Ledger ledger_;
};

}  // namespace

const LedgerEntry* Ledger::find(int64_t trial) const& {
  const auto found = std::ranges::lower_bound(trials, trial, {}, [](const LedgerEntry& each) { return each.individual.trial; });
  return found == trials.end() || found->individual.trial != trial ? nullptr : &*found;
}

Ledger ledger_of(const std::vector<JournalFile>& files) {
  Reader reader;
  for (const JournalFile& file : files) reader.read(file);
  return reader.ledger();
}

Ledger read_ledger(const std::filesystem::path& folder, const Space& space) {
  const std::vector<JournalFile> files = read_journal(folder);
  for (const JournalFile& file : files) {
    if (file.header.space != space.hash())
      throw FileError(file.path, 0, "is the journal of a search over another space; choose another folder, or use that space");
  }
  return ledger_of(files);
}

}  // namespace tw::search
