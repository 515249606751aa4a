// SPDX-License-Identifier: Apache-2.0
// Trials that a user adds to a search by hand.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <tw/evolution/named_values.hpp>

namespace tw::search {

/// Makes a search try a configuration after Space::starts(), but before the search's own proposals. The search may be running, or start later. Each
/// worker of the search checks the queue when it begins a trial, except in the 0.1 s after it found the queue empty. The trial counts as one of the
/// search's evaluations. Parameters that `configuration` does not name get their initial value or, without one, the first choice or the middle of
/// their scale. A configuration that does not fit the space is refused with a warning when its turn comes.
/// @param folder the folder of the search's journal. @return the number of the configuration in the queue, from 0
/// @throws FileError
int64_t enqueue(const std::filesystem::path& folder, const NamedTexts& configuration);

}  // namespace tw::search
