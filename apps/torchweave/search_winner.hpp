// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <tw/evolution/individual.hpp>
#include <tw/mpi/communicator.hpp>

#include "search_task.hpp"

namespace tw::tool {

/// Trains a search's best configuration once more, evaluates it on the test set, and prints that on rank 0. Each whole group of `ranks` ranks does
/// the same; the figures of the first group count. Remaining ranks return at once. Collective.
/// @param folder of the journal, where test.txt has a line for each time; empty: none
void test_winner(const Communicator& comm, const SearchTask& task, const search::Individual& best, int ranks, const std::filesystem::path& folder);

}  // namespace tw::tool
