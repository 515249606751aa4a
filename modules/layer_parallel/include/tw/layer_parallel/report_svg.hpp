// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/layer_parallel/iteration_control.hpp>
#include <vector>

namespace tw::layer_parallel {

/// Returns one report per rank, on every rank. They differ only in times: all other values are those of `mine`. Collective.
/// @param comm IteratedNetwork::comm() @param mine this rank's report, of the same passes on all ranks
std::vector<NetworkReport> reports_of_all_ranks(const Communicator& comm, const NetworkReport& mine);

/// Draws the last passes as SVG: residuals over iterations; for each rank and direction, the times on each level, in the last relaxation and in
/// waiting; and the checks in `history`, if there are any. Pure. @param by_rank at least one report @param bound DetectorOptions::bound
std::string report_svg(const std::vector<NetworkReport>& by_rank, const std::vector<Detection>& history = {}, double bound = 1);

}  // namespace tw::layer_parallel
