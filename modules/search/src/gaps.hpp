// SPDX-License-Identifier: Apache-2.0
// Whether workers can get where they were by doing again what their files say. Pure.
#pragma once
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <tw/search/journal.hpp>
#include <utility>
#include <vector>

namespace tw::search {

/// What was lost: something that a worker of the last layout had heard of, from a file that was cut or is gone. Empty: nothing that any worker did
/// depends on what is missing.
/// @param files as read_journal() gives them. @param copies whether migrants stay at home as well
std::string gap_in(const std::vector<JournalFile>& files, bool copies);

/// A stay on an island: of a trial, after so many moves.
using Stay = std::pair<int64_t, int32_t>;

/// The stays on an island that ended with a move that came to no end: when the job did, these individuals were on their way.
/// @param files of one layout. @param workers of the island
std::set<Stay> left_and_not_arrived(std::span<const JournalFile> files, const std::set<int>& workers);

}  // namespace tw::search
