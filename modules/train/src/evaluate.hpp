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

/// The sums of `values` over the ranks. Collective.
std::vector<double> sum_over_ranks(const Communicator& comm, std::vector<double> values);

/// Loss and metrics of `model` on `dataset`, every sample once, exact over all ranks, and the same on all of them. Collective. Empty for an empty
/// data set. Of ranks that hold a model together, those that have its outputs compute them. Leaves the modes of submodules as they were.
/// @param rows of a rank in a forward pass. @param in_step every rank makes as many passes as the others
Figures evaluate(const Ranks& ranks, const Model& model, const Objective& objective, const Dataset& dataset, int64_t rows, bool in_step);

}  // namespace tw::train
