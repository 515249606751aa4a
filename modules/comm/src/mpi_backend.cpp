// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <array>
#include <cstring>
#include <tw/base/contract.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/shared_memory/reduce.hpp>

#include "backends.hpp"
#include "divide.hpp"
#include "with_ending.hpp"

namespace tw {
namespace {

int64_t result_count(const Communicator& comm, const Call& call) {
  if (call.collective == Collective::reduce_scatter) return call.count / comm.size();
  return call.collective == Collective::reduce && call.peer != comm.rank() ? 0 : call.count;
}

// On a single rank there is nothing to combine, but a logical operation must still yield 0 or 1.
std::unique_ptr<mpi::Transfer> reduce_alone(const BoundCall& bound) {
  shared_memory::reduce(bound.call.op, bound.call.type, std::array{bound.input}, std::array{bound.output}, bound.call.count);
  return std::make_unique<Nothing>();
}

std::unique_ptr<mpi::Transfer> begin_reduction(const Communicator& comm, const Call& call, const void* input, void* output) {
  const mpi::Buffer buffer{const_cast<void*>(input), call.count, call.type};
  switch (call.collective) {
    case Collective::allreduce: return mpi::allreduce_transfer(comm, buffer, call.op);
    case Collective::reduce: return mpi::reduce_transfer(comm, buffer, call.op, Rank(call.peer));
    default: return mpi::reduce_scatter_transfer(comm, buffer, output, call.op);
  }
}

// MPI has no 16-bit floats: they are reduced as float32 and rounded once.
std::unique_ptr<mpi::Transfer> reduce_halves(const Communicator& comm, const BoundCall& bound) {
  const int64_t count = result_count(comm, bound.call);
  const bool in_place = bound.call.collective != Collective::reduce_scatter;
  const at::Tensor input = as_tensor(bound.input, bound.call.count, bound.call.type).to(at::kFloat);
  const at::Tensor output = in_place ? input : at::empty({count}, at::TensorOptions().dtype(at::kFloat));
  Call wide = bound.call;
  wide.type = ElementType::float32;
  auto transfer = begin_reduction(comm, wide, input.const_data_ptr(), output.mutable_data_ptr());
  const double divisor = bound.call.op == ReduceOp::average ? comm.size() : 1;
  return std::make_unique<WithEnding>(std::move(transfer), [bound, count, input, output, divisor] {
    const at::NoGradGuard no_grad;
    as_tensor(bound.output, count, bound.call.type).copy_(output.narrow(0, 0, count).div(divisor));
  });
}

// MPI forbids a result inside the input: such a result goes through a temporary buffer.
std::unique_ptr<mpi::Transfer> reduce(const Communicator& comm, const BoundCall& bound) {
  const Call& call = bound.call;
  const int64_t count = result_count(comm, call);
  const int64_t bytes = count * element_bytes(call.type);
  const bool lies_in_input = call.collective == Collective::reduce_scatter && bytes > 0 && bound.output == bound.input + comm.rank() * bytes;
  const std::shared_ptr<std::byte[]> own(lies_in_input ? new std::byte[static_cast<size_t>(bytes)] : nullptr);
  auto transfer = begin_reduction(comm, call, bound.input, own ? own.get() : bound.output);
  if (call.op != ReduceOp::average && !own) return transfer;
  return std::make_unique<WithEnding>(std::move(transfer), [bound, own, count, bytes, divisor = comm.size()] {
    if (own) std::memcpy(bound.output, own.get(), static_cast<size_t>(bytes));
    if (bound.call.op == ReduceOp::average) divide(bound.output, count, bound.call.type, divisor);
  });
}

// Collectives that only move elements.
std::unique_ptr<mpi::Transfer> move(const Communicator& comm, const BoundCall& bound) {
  const Call& call = bound.call;
  const int64_t bytes = call.count * element_bytes(call.type);
  switch (call.collective) {
    case Collective::barrier: return mpi::barrier_transfer(comm);
    case Collective::broadcast: return mpi::broadcast_transfer(comm, {bound.output, call.count, call.type}, Rank(call.peer));
    case Collective::alltoall: return mpi::alltoall_transfer(comm, bound.input, bound.output, bytes / comm.size());
    case Collective::allgather:
      return mpi::allgather_transfer(comm, {bound.input, static_cast<size_t>(bytes)}, bound.output,
                                     std::vector<int64_t>(static_cast<size_t>(comm.size()), bytes));
    default: break;
  }
  TW_ASSERT(false);  // the others have only one implementation
  return nullptr;
}

class MpiBackend : public Backend {
 public:
  std::string_view name() const noexcept override { return "mpi"; }
  std::string why_not(const Call&) const override { return ""; }

  std::unique_ptr<mpi::Transfer> begin(const Communicator& comm, const BoundCall& given) override {
    const BoundCall bound{moved(given), given.input, given.output};
    const Call& call = bound.call;
    if (is_reduction(call.collective)) {
      if (comm.size() == 1) return reduce_alone(bound);
      const bool half = call.type == ElementType::float16 || call.type == ElementType::bfloat16;
      return half ? reduce_halves(comm, bound) : reduce(comm, bound);
    }
    return move(comm, bound);
  }
};

// For device memory. MPI's non-blocking reductions are not supported here: Open MPI's list of functions that accept such memory omits them.
class DirectBackend : public Backend {
 public:
  explicit DirectBackend(std::string why_not) : why_not_(std::move(why_not)) {}

  std::string_view name() const noexcept override { return "direct"; }
  Passage passage() const noexcept override { return Passage::direct; }

  std::string why_not(const Call& call) const override {
    if (!why_not_.empty()) return why_not_;
    return is_reduction(call.collective) ? "MPI's reductions need host memory" : "";
  }

  std::unique_ptr<mpi::Transfer> begin(const Communicator& comm, const BoundCall& bound) override { return move(comm, bound); }

 private:
  std::string why_not_;
};

}  // namespace

std::unique_ptr<Backend> make_mpi_backend() { return std::make_unique<MpiBackend>(); }

std::unique_ptr<Backend> make_direct_backend(const std::string& kind, bool aware) {
  return std::make_unique<DirectBackend>(aware ? "" : concat("this MPI does not accept memory of ", kind, " devices"));
}

}  // namespace tw
