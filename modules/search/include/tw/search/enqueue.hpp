// SPDX-License-Identifier: Apache-2.0
// Trials put in by hand.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <tw/evolution/named_values.hpp>

namespace tw::search {

/// Has a search try a configuration before its own proposals: a search that has not begun, or one that runs, which checks a few times a second. It is
/// one of the search's evaluations. Parameters that are not named have the values at which the space starts, or the first choice or the middle of
/// their scale. A configuration that the space does not have is refused when its turn comes, with a warning.
/// @param folder of the search's journal. @return its number in the queue, from 0
/// @throws FileError
int64_t enqueue(const std::filesystem::path& folder, const NamedTexts& configuration);

}  // namespace tw::search
