// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw {

/// The `mine` of every rank, in rank order, on every rank. Collective; sizes may differ.
std::vector<std::string> allgather_strings(const Communicator& comm, const std::string& mine);

}  // namespace tw
