// SPDX-License-Identifier: Apache-2.0
// Collectives on strings: text or bytes of any length.
#pragma once
#include <string>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw {

/// Returns the `mine` of every rank, in rank order, on every rank. Collective; sizes may differ.
std::vector<std::string> allgather_strings(const Communicator& comm, const std::string& mine);

/// Returns the `mine` of every rank on `root`, and an empty list elsewhere. Collective. @throws ContractError unless `root` is a rank of `comm`.
std::vector<std::string> gather_strings(const Communicator& comm, const std::string& mine, Rank root);

/// Sends texts[r] of `root` to rank r, and returns this rank's text. Collective. @param texts one for each rank; used on the root only.
/// @throws ContractError on every rank unless `root` is a rank of `comm` and passes one text for each rank.
std::string scatter_strings(const Communicator& comm, const std::vector<std::string>& texts, Rank root);

/// Returns the `text` of `root` on every rank. Collective. @param text used on the root only. @throws ContractError unless `root` is a rank of
/// `comm`.
std::string broadcast_string(const Communicator& comm, const std::string& text, Rank root);

}  // namespace tw
