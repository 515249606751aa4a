// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/base/call.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/start_queue.hpp>

namespace tw {

/// On an audited communicator: what the data of `call` wait for, which is that all ranks make this call with a tensor of the same shape. Returns at
/// once: a rank that is late holds up this call's data and nothing else. Empty on other communicators.
/// The result throws ContractError on every rank where ranks differ, naming them and both calls.
mpi::StartQueue::Ready audited_start(const Communicator& comm, const Call& call, const at::Tensor& tensor);
/// The same for calls whose sizes may differ from rank to rank.
mpi::StartQueue::Ready audited_start(const Communicator& comm, const Call& call);

/// The same, waited for, where a call begins with blocking ones.
void wait_for_audit(const Communicator& comm, const Call& call);

/// True when both are; an empty one is.
mpi::StartQueue::Ready both_ready(mpi::StartQueue::Ready first, mpi::StartQueue::Ready second);

}  // namespace tw
