// SPDX-License-Identifier: Apache-2.0
#include "gaps.hpp"

#include <tw/base/concat.hpp>

namespace tw::search {
std::string gap_in(const std::vector<JournalFile>& files, bool copies) {
  std::set<int64_t> ended;
  std::set<Stay> begun;  // by immigration
  std::set<Stay> over;
  const int last = files.empty() ? 0 : files.back().header.epoch;
  const auto is_last = [last](const JournalFile& file) { return file.header.epoch == last; };
  for (const JournalFile& file : files) {
    for (const Record& record : file.records) {
      const Stay stay{record.individual.trial, record.individual.moves};
      const bool is_adoption = record.kind == Record::Kind::adoption;
      if (record.kind == Record::Kind::end || (is_adoption && !is_last(file))) ended.insert(stay.first);
      if (is_last(file) && is_adoption) begun.insert(stay);
      if (is_last(file) && record.kind == Record::Kind::departure) over.insert(stay);
    }
  }
  for (const JournalFile& file : files) {
    if (!is_last(file)) continue;
    for (const Record& record : file.records) {
      const bool is_departure = record.kind == Record::Kind::departure;
      if (!is_departure && record.kind != Record::Kind::arrival && record.kind != Record::Kind::adoption) continue;
      const auto [trial, moves] = Stay{record.individual.trial, record.individual.moves};
      if (!ended.contains(trial)) return concat("the end of trial ", trial, " is missing");
      if (!is_departure && moves > 0 && !begun.contains({trial, moves}))
        return concat("the arrival of trial ", trial, " on another island is missing");
      if (copies) continue;
      if (!is_departure && moves > 0 && !over.contains({trial, moves - 1}))
        return concat("trial ", trial, " arrived on an island, but its departure from another island is missing");
    }
  }
  return {};
}

std::set<Stay> left_and_not_arrived(std::span<const JournalFile> files, const std::set<int>& workers) {
  std::set<Stay> left;
  for (const JournalFile& file : files) {
    if (!workers.contains(file.header.worker)) continue;
    for (const Record& record : file.records) {
      if (record.kind == Record::Kind::departure) left.emplace(record.individual.trial, record.individual.moves);
    }
  }
  for (const JournalFile& file : files) {
    for (const Record& record : file.records) {
      if (record.kind == Record::Kind::adoption) left.erase({record.individual.trial, record.individual.moves - 1});
    }
  }
  return left;
}

}  // namespace tw::search
