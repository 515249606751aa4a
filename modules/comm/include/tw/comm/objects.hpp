// SPDX-License-Identifier: Apache-2.0
// Small things that are not tensors: text, or bytes in a string, of any length.
#pragma once
#include <string>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw {

/// The `mine` of every rank, in rank order, on every rank. Collective; sizes may differ.
std::vector<std::string> allgather_strings(const Communicator& comm, const std::string& mine);

/// The same on `root` alone; elsewhere nothing. Collective. @throws ContractError unless `root` is a rank here.
std::vector<std::string> gather_strings(const Communicator& comm, const std::string& mine, Rank root);

/// The `text` of `root`, on every rank. Collective. @param text ignored elsewhere. @throws ContractError unless `root` is a rank here.
std::string broadcast_string(const Communicator& comm, const std::string& text, Rank root);

}  // namespace tw
