// SPDX-License-Identifier: Apache-2.0
// Whether workers can restore their state by replaying their files. Pure.
#pragma once
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <tw/search/journal.hpp>
#include <utility>
#include <vector>

namespace tw::search {

/// A description of a missing record that a worker of the last layout depended on, because the file that held it was cut off or deleted. Empty: no
/// action of any worker depended on a missing record.
/// @param files as read_journal() returns them. @param copies whether migrants also stay on their island (MigrationOptions::copies)
std::string gap_in(const std::vector<JournalFile>& files, bool copies);

/// A stay of a trial on an island, after this number of moves.
using Stay = std::pair<int64_t, int32_t>;

/// The stays on an island that ended with a departure whose arrival is missing: when the job ended, these individuals were on their way.
/// @param files files of one layout. @param workers workers of the island
std::set<Stay> left_and_not_arrived(std::span<const JournalFile> files, const std::set<int>& workers);

}  // namespace tw::search
