// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>

namespace tw::search {

/// How far a search has come, which may be running: trials by state, the best one, those under way, evaluations an hour, and what is left of the
/// budget. For people, some lines. By any process; reads the journal as it is.
/// @param now seconds since the Unix epoch. @param runs whether it runs: otherwise what is under way was so when it ended
/// @throws FileError for what cannot be read, or where no search has begun
std::string status_text(const std::filesystem::path& folder, double now, bool runs);

}  // namespace tw::search
