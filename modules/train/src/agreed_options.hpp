// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data/dataset.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/train/objective.hpp>
#include <tw/train/options.hpp>

namespace tw::train {

/// Returns the options after checking that all ranks have the same and that they are valid. An error on one rank is thrown on all. Collective.
/// @throws ContractError
Options agreed_options(const Communicator& comm, const Options& options, const Dataset& train, const Dataset& test, const Dataset* validation,
                       const Objective& objective);

}  // namespace tw::train
