// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <tw/gradients/reducer.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/tensor_spec.hpp>
#include <vector>

namespace tw {

/// By gradient: whether `names` contains it. @throws ContractError for an unknown name
std::vector<uint8_t> find_sparse(const std::vector<TensorSpec>& specs, const std::vector<std::string>& names);

/// @throws ContractError naming the invalid option
void validate(const ReducerOptions& options, const std::vector<TensorSpec>& specs, const std::vector<uint8_t>& sparse);

/// Collective. @throws ContractError on every rank, naming ranks and option or gradient
void expect_same_on_all_ranks(const Communicator& comm, const std::vector<TensorSpec>& specs, const ReducerOptions& options);

}  // namespace tw
