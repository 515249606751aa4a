// SPDX-License-Identifier: Apache-2.0
// What errors say of ranks that do not agree. Pure.
#pragma once
#include <string>
#include <tw/comm/agreement.hpp>
#include <vector>

namespace tw {

/// Those that say why: without consequences, unless there is nothing else.
std::vector<RankFailure> causes_of(std::vector<RankFailure> failures);

/// "reading a.json failed on ranks 1, 3 of 'world': rank 1: no such file"; without the second rank where both say the same, and without any where
/// every rank does.
/// @param what failed. @param causes one at least, in the order of ranks. @param ranks of `comm`, a communicator's name
std::string failure_text(const std::string& what, const std::vector<RankFailure>& causes, int ranks, const std::string& comm);

/// "rank 2 has 'b float32 [3]' where rank 0 has 'b float32 [4]'", for the first line that differs; several of them after semicolons.
/// @param texts by rank. @return empty where all are rank 0's
std::string differences_text(const std::vector<std::string>& texts);

}  // namespace tw
