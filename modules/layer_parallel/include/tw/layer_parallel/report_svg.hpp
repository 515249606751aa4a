// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/layer_parallel/iteration_control.hpp>
#include <vector>

namespace tw::layer_parallel {

/// The report of each rank, by rank. Collective. @param comm IteratedNetwork::comm() @param mine of the same passes as the other ranks'
std::vector<NetworkReport> reports_of_all_ranks(const Communicator& comm, const NetworkReport& mine);

/// A picture of the last passes: residuals over iterations; for each rank and direction how long it was on which level, how long the last relaxation
/// took, and how much of all this it waited; and what a detector found, if there was one. Pure. @param by_rank at least one
std::string report_svg(const std::vector<NetworkReport>& by_rank, const std::vector<Detection>& history = {}, double bound = 1);

}  // namespace tw::layer_parallel
