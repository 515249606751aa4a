// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/mpi/communicator.hpp>

namespace torch::nn {
class Module;
}

namespace tw::tensor_parallel {

/// Checks that all ranks drew the same parameters of `whole`, before each keeps only its slice. Collective.
/// @param layer for the message, such as "RowParallelLinear(4, 3)". @throws ContractError on every rank alike, naming those that differ.
void expect_same_initial_values(const Communicator& comm, const std::string& layer, const torch::nn::Module& whole);

}  // namespace tw::tensor_parallel
