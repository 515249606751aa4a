// SPDX-License-Identifier: Apache-2.0
// Whether workers can get where they were by doing again what their files say. Pure.
#pragma once
#include <string>
#include <tw/search/journal.hpp>
#include <vector>

namespace tw::search {

/// What was lost: something that a worker of the last layout had heard of, from a file that was cut or is gone, or that was on its way when the job
/// ended. Empty: nothing that any worker did depends on what is missing.
/// @param files as read_journal() gives them. @param copies whether migrants stay at home as well
std::string gap_in(const std::vector<JournalFile>& files, bool copies);

}  // namespace tw::search
