// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// On an audited communicator: checks that all ranks make this call, with the same shape and dtype. Collective there, free elsewhere.
/// @param detail what else must agree, such as "sum" or "root 0".
/// @throws ContractError on every rank, naming the ranks that differ and both calls.
void audit_call(const Communicator& comm, const char* operation, const at::Tensor& tensor, const std::string& detail);

}  // namespace tw
