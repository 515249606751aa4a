// SPDX-License-Identifier: Apache-2.0
// Trials that a user adds to a search by hand.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <tw/evolution/named_values.hpp>

namespace tw::search {

/// Makes a search try a configuration before its own proposals, but after Space::starts(). The search may be running, or start later. Its workers
/// check the queue when they begin a trial, at most ten times a second. The trial counts as one of the search's evaluations. Parameters that are not
/// named get their initial value, or else the first choice or the middle of their scale. A configuration that does not fit the space is refused with
/// a warning when its turn comes.
/// @param folder the search's journal. @return the number of the configuration in the queue, from 0
/// @throws FileError
int64_t enqueue(const std::filesystem::path& folder, const NamedTexts& configuration);

}  // namespace tw::search
