// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data/dataset.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/train/model.hpp>
#include <tw/train/objective.hpp>
#include <tw/train/report.hpp>
#include <vector>

#include "ranks.hpp"

namespace tw::train {

/// Sums `values` elementwise over the ranks. Collective.
std::vector<double> sum_over_ranks(const Communicator& comm, std::vector<double> values);

/// Loss and metrics of `model` on `dataset`: every sample once, exact over all ranks, and equal on all of them. Empty for an empty data set. If ranks
/// share a model, those that have its outputs compute the figures. Leaves the modes of submodules unchanged. Collective.
/// @param rows per rank and forward pass. @param in_step whether every rank must make the same number of passes
Figures evaluate(const Ranks& ranks, const Model& model, const Objective& objective, const Dataset& dataset, int64_t rows, bool in_step);

}  // namespace tw::train
