// SPDX-License-Identifier: Apache-2.0
// Error texts for ranks that do not agree. Pure functions.
#pragma once
#include <string>
#include <tw/comm/agreement.hpp>
#include <vector>

namespace tw {

/// The failures that are causes: without consequences, unless all are consequences.
std::vector<RankFailure> causes_of(std::vector<RankFailure> failures);

/// "reading a.json failed on ranks 1, 3 of 'world': rank 1: no such file". "rank 1: " is omitted if all messages are the same; if
/// every rank has that message, the list of ranks is omitted too.
/// @param what failed. @param causes at least one, by ascending rank. @param ranks size of `comm`, which is a communicator's name
std::string failure_text(const std::string& what, const std::vector<RankFailure>& causes, int ranks, const std::string& comm);

/// "rank 2 has 'b float32 [3]' where rank 0 has 'b float32 [4]'", for the first line that differs; several ranks are joined by semicolons.
/// @param texts by rank. @return empty if all equal rank 0's
std::string differences_text(const std::vector<std::string>& texts);

}  // namespace tw
