// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/base/call.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/start_queue.hpp>

namespace tw {

/// On an audited communicator: a condition that is true once all ranks have made this call with a tensor of the same shape. The data of `call` must
/// wait for it. Returns at once: a late rank delays this call's data and nothing else. Empty on other communicators. The condition throws
/// ContractError on every rank if calls differ; the message names the ranks and both calls.
mpi::StartQueue::Ready audited_start(const Communicator& comm, const Call& call, const at::Tensor& tensor);
/// The same for calls whose sizes may differ from rank to rank.
mpi::StartQueue::Ready audited_start(const Communicator& comm, const Call& call);

/// The same, but blocks; for calls that begin with blocking ones.
void wait_for_audit(const Communicator& comm, const Call& call);

/// True when both are true; an empty condition is true.
mpi::StartQueue::Ready both_ready(mpi::StartQueue::Ready first, mpi::StartQueue::Ready second);

}  // namespace tw
