// SPDX-License-Identifier: Apache-2.0
// Collectives on tensors. Every rank of the communicator makes the same calls in the same order, with the same dtypes and matching shapes. Audited
// communicators (EnvironmentOptions::audit) check this before they move data; backends in shared memory check it during the call. If one of these
// checks finds that the calls differ, wait() throws on every rank and names the ranks. Without a check, different calls are not detected.
//
// - Functions named `i...` begin an operation and return at once; the others return when their operation is complete. Several operations may be in
//   flight; wait for them in any order.
// - dtypes: bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128. Reductions: see ReduceOp in
//   <tw/base/element.hpp>, which defines them for each type; the result has the same bits on all ranks.
// - Tensors lie on the CPU or on an accelerator; all tensors of a call lie on one device. Any strides are allowed (non-contiguous tensors are packed
//   and unpacked), and so are 0-dimensional and empty tensors. In a collective, either all ranks pass tensors on the CPU, or none does.
// - On an accelerator, an operation begins after the work already queued on the current stream. Its data moves outside that stream: in device memory,
//   or through pinned host memory, see <tw/comm/backend.hpp>. Work::wait() makes the current stream wait for the results; Work::wait_on_host() also
//   makes the host wait for them.
// - Autograd does not record these calls; <tw/comm/differentiable.hpp> has differentiable ones.
// - Every function, or the wait for its Work, throws ContractError for invalid tensors, RevokedError if `comm` is revoked, and MpiError if MPI fails.
// - P is comm.size(). docs/algorithms.md has the cost of each collective.
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/base/element.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <vector>

namespace tw {

/// Returns when every rank has called it. Collective.
void barrier(const Communicator& comm);
Work ibarrier(const Communicator& comm);

/// Copies `tensor` of `root` to all ranks, in place. Collective. @param tensor any shape.
void broadcast(const Communicator& comm, const at::Tensor& tensor, Rank root);
Work ibroadcast(const Communicator& comm, const at::Tensor& tensor, Rank root);
/// Broadcasts several tensors, of any dtypes, in one operation. Collective.
void broadcast(const Communicator& comm, const std::vector<at::Tensor>& tensors, Rank root);
Work ibroadcast(const Communicator& comm, const std::vector<at::Tensor>& tensors, Rank root);

/// Reduces `tensor` element by element over all ranks, in place. Collective. @param tensor any shape.
void allreduce(const Communicator& comm, const at::Tensor& tensor, ReduceOp op);
Work iallreduce(const Communicator& comm, const at::Tensor& tensor, ReduceOp op);
/// All-reduces several tensors, of any dtypes, in one operation. Collective.
void allreduce(const Communicator& comm, const std::vector<at::Tensor>& tensors, ReduceOp op);
Work iallreduce(const Communicator& comm, const std::vector<at::Tensor>& tensors, ReduceOp op);

/// Reduces `tensor` over all ranks, in place on `root`; the other ranks' tensors stay unchanged. Collective.
void reduce(const Communicator& comm, const at::Tensor& tensor, ReduceOp op, Rank root);
Work ireduce(const Communicator& comm, const at::Tensor& tensor, ReduceOp op, Rank root);

/// Concatenates the `input` of all ranks into `output`, in rank order. Collective.
/// @param input separate memory, or exactly this rank's part of `output`, which then needs no copy; the same choice on all ranks.
/// @param output P times the elements of `input`, such as shape [P, ...].
void allgather(const Communicator& comm, const at::Tensor& input, const at::Tensor& output);
Work iallgather(const Communicator& comm, const at::Tensor& input, const at::Tensor& output);
/// Returns the `input` of every rank on every rank, in rank order. Shapes may differ between ranks, dtypes may not. Collective.
std::vector<at::Tensor> allgather_variable(const Communicator& comm, const at::Tensor& input);

/// Reduces each of the P parts of `input` over all ranks; rank r receives part r. Collective.
/// @param input P times the elements of `output`, such as shape [P, ...].
/// @param output separate memory, or exactly this rank's part of `input`; the rest of `input` is unchanged.
void reduce_scatter(const Communicator& comm, const at::Tensor& input, const at::Tensor& output, ReduceOp op);
Work ireduce_scatter(const Communicator& comm, const at::Tensor& input, const at::Tensor& output, ReduceOp op);

/// Sends part r of the P equal parts of `input` to rank r, and concatenates the parts from all ranks into `output`, in rank order. Collective.
/// @param input, output the same number of elements, a multiple of P; shape [P, ...] for example.
void alltoall(const Communicator& comm, const at::Tensor& input, const at::Tensor& output);
Work ialltoall(const Communicator& comm, const at::Tensor& input, const at::Tensor& output);
/// Like alltoall() above, with a tensor of any size for each rank, all of one dtype: inputs[r] goes to outputs[this rank] on rank r. Collective.
void alltoall(const Communicator& comm, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs);
Work ialltoall(const Communicator& comm, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs);

/// Copies the `input` of rank r to outputs[r] of `root`. Collective. @param outputs one tensor per rank, as large as its input; used on the root
/// only.
void gather(const Communicator& comm, const at::Tensor& input, const std::vector<at::Tensor>& outputs, Rank root);
Work igather(const Communicator& comm, const at::Tensor& input, const std::vector<at::Tensor>& outputs, Rank root);

/// Sends inputs[r] of `root` to `output` of rank r. Collective. @param inputs one tensor per rank, as large as its output; used on the root only.
void scatter(const Communicator& comm, const std::vector<at::Tensor>& inputs, const at::Tensor& output, Rank root);
Work iscatter(const Communicator& comm, const std::vector<at::Tensor>& inputs, const at::Tensor& output, Rank root);

/// Sends `tensor` to one rank. The receiver's tensor must have the same dtype and number of elements: otherwise the receiver throws a ContractError
/// with the dtypes and numbers of both. Between two ranks, messages with the same tag arrive in order.
void send(const Communicator& comm, const at::Tensor& tensor, Rank to, Tag tag = Tag(0));
Work isend(const Communicator& comm, const at::Tensor& tensor, Rank to, Tag tag = Tag(0));
void recv(const Communicator& comm, const at::Tensor& tensor, Rank from, Tag tag = Tag(0));
Work irecv(const Communicator& comm, const at::Tensor& tensor, Rank from, Tag tag = Tag(0));
/// Sends and receives at once; neither waits for the other. The two tensors may differ in dtype and shape but must not share memory.
void sendrecv(const Communicator& comm, const at::Tensor& outgoing, Rank to, const at::Tensor& incoming, Rank from, Tag tag = Tag(0));
Work isendrecv(const Communicator& comm, const at::Tensor& outgoing, Rank to, const at::Tensor& incoming, Rank from, Tag tag = Tag(0));

}  // namespace tw
