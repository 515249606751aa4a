// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>

namespace tw::search {

/// The progress of a search, which may be running: trials by state, the best one, those in flight, evaluations an hour, and what is left of the
/// budget. A few lines of text for people. Any process may call this; it only reads the journal.
/// @param now seconds since the Unix epoch. @param runs whether it runs: otherwise trials in flight were so when it ended
/// @throws FileError for what cannot be read, or where no search has begun
std::string status_text(const std::filesystem::path& folder, double now, bool runs);

}  // namespace tw::search
