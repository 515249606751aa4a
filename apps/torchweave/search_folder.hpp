// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <tw/mpi/communicator.hpp>

namespace tw::tool {

/// Makes sure that the journal in `folder` belongs to this search, or that there is none. Collective.
/// @param folder empty: the search has no journal. @param identity see SearchTask. @param fresh whether to delete an earlier search
/// @throws Error if another search runs in the folder, or if its journal belongs to another objective
void prepare_search_folder(const Communicator& comm, const std::filesystem::path& folder, const std::string& identity, bool fresh);

}  // namespace tw::tool
