// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw {

/// Checks that every rank holds the same `lines`. Collective: one hash per rank travels; the lines only when hashes differ.
/// @param what for the message, such as "the model's parameters".
/// @throws ContractError on every rank alike, naming the ranks that differ from rank 0 and the first line that does.
void expect_same_on_all_ranks(const Communicator& comm, const std::string& what, const std::vector<std::string>& lines);

}  // namespace tw
