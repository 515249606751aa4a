// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <tw/mpi/communicator.hpp>

namespace tw::tool {

/// Makes sure that a journal belongs to this search, or that there is none. Collective.
/// @param folder empty: nothing is kept. @param identity of the objective. @param fresh removes an earlier search
/// @throws Error when another search runs there, or the one that is there is of another objective
void prepare_search_folder(const Communicator& comm, const std::filesystem::path& folder, const std::string& identity, bool fresh);

}  // namespace tw::tool
