// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <tw/evolution/individual.hpp>
#include <tw/mpi/communicator.hpp>

#include "search_task.hpp"

namespace tw::tool {

/// Trains a search's best configuration again, evaluates it on the test set, and prints the figures on rank 0. Each whole group of `ranks` ranks does
/// the same; the figures of the first group count. Remaining ranks return at once. Collective.
/// @param folder folder of the journal, in which test.txt has a line for each such test; empty: none
void test_winner(const Communicator& comm, const SearchTask& task, const search::Individual& best, int ranks, const std::filesystem::path& folder);

}  // namespace tw::tool
