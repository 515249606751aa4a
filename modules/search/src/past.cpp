// SPDX-License-Identifier: Apache-2.0
#include "past.hpp"

#include <algorithm>
#include <tuple>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <utility>

#include "gaps.hpp"

namespace tw::search {

JournalHeader header_of(const Place& place) {
  JournalHeader header{.space = place.space.hash(),
                       .seed = place.options.seed,
                       .worker = place.worker,
                       .objectives = place.options.objectives,
                       .evaluations = place.options.evaluations};
  for (int island = 0; island < place.layout.islands(); ++island) header.islands.push_back(place.layout.workers_of(island));
  for (int worker = 0; worker < place.layout.workers(); ++worker) header.ranks.push_back(place.layout.ranks_of(worker));
  return header;
}

std::vector<JournalFile> read_past(const std::filesystem::path& folder, const JournalHeader& own) {
  if (folder.empty()) return {};
  std::vector<JournalFile> files = read_journal(folder);
  for (const JournalFile& file : files) {
    const JournalHeader& header = file.header;
    if (header.space != own.space)
      throw FileError(file.path, 0, "is the journal of a search over another space; choose another folder, or use that space");
    if (header.seed != own.seed) throw FileError(file.path, 0, concat("is the journal of a search with seed ", header.seed, ", not ", own.seed));
    if (header.objectives != own.objectives) {
      throw FileError(file.path, 0,
                      concat("is the journal of a search with the objectives [", joined(header.objectives), "], not [", joined(own.objectives), ']'));
    }
  }
  return files;
}

Past past_of(std::vector<JournalFile> files, const JournalHeader& own, const std::set<int>& asked, bool copies) {
  Past past{.files = std::move(files), .all = {}, .header = own};
  past.all = history_of(past.files);
  past.all.interrupted = judged(std::move(past.all.interrupted), asked);
  past.header.epoch = past.all.epochs;
  past.header.first_trial = past.all.next_trial;
  if (past.files.empty()) return past;
  const JournalHeader& last = past.files.back().header;
  if (std::tie(last.islands, last.ranks) != std::tie(own.islands, own.ranks)) return past;
  past.gap = gap_in(past.files, copies);
  if (!past.gap.empty()) return past;
  past.replays = true;
  past.header.epoch = last.epoch;
  past.header.first_trial = last.first_trial;
  past.header.evaluations = last.evaluations;
  return past;
}

std::span<const JournalFile> Past::files_of_epoch() const {
  return {std::ranges::find(files, header.epoch, [](const JournalFile& file) { return file.header.epoch; }), files.end()};
}

const JournalFile* Past::own_file() const {
  const std::span<const JournalFile> here = files_of_epoch();
  const auto found = std::ranges::find(here, header.worker, [](const JournalFile& file) { return file.header.worker; });
  return found == here.end() ? nullptr : &*found;
}

std::map<int64_t, Individual> Past::ended_before() const { return history_of({files.begin(), files.end() - std::ssize(files_of_epoch())}).ended; }

int Past::worker_for(const Interrupted& interrupted) const {
  if (replays && interrupted.epoch == header.epoch) return interrupted.worker;
  return static_cast<int>(interrupted.individual.trial % std::ssize(header.ranks));
}

Backlog backlog_of(const Past& past, int64_t evaluations, int attempts) {
  constexpr int64_t no_limit = int64_t{1} << 60;
  const int64_t left = evaluations > 0 ? std::max<int64_t>(0, evaluations - std::ssize(past.all.ended)) : no_limit;
  std::vector<Interrupted> repeated = past.all.interrupted;
  repeated.resize(static_cast<size_t>(std::min(left, std::ssize(repeated))));
  Backlog backlog{.interrupted = {}, .turns = Turns(repeated, attempts), .evaluations = left - std::ssize(repeated)};
  std::ranges::copy_if(repeated, std::back_inserter(backlog.interrupted),
                       [&](const Interrupted& each) { return past.worker_for(each) == past.header.worker; });
  return backlog;
}

}  // namespace tw::search
