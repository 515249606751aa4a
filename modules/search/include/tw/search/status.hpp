// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>

namespace tw::search {

/// The progress of a search as a few lines of text: trials by state, the best trial, trials in flight, evaluations per hour and the remaining budget.
/// Any process may call it, also while the search runs, since it only reads the journal.
/// @param folder the folder of the journal. @param now seconds since the Unix epoch. @param runs whether the search is running; otherwise, trials in
/// flight are listed as not ended
/// @throws FileError for a file that cannot be read, or if `folder` holds no search
std::string status_text(const std::filesystem::path& folder, double now, bool runs);

}  // namespace tw::search
