// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/base/call.hpp>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// On an audited communicator: checks that all ranks make this call, with a tensor of the same shape. Collective there, free elsewhere.
/// @throws ContractError on every rank, naming the ranks that differ and both calls.
void audit_call(const Communicator& comm, const Call& call, const at::Tensor& tensor);
/// The same for calls whose sizes may differ from rank to rank.
void audit_call(const Communicator& comm, const Call& call);

}  // namespace tw
