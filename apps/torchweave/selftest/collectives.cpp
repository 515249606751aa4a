// SPDX-License-Identifier: Apache-2.0
// Every backend, compared with MPI's own calls. Values are small integers, so that sums are exact in any order and results are equal bit for bit.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/comm/backend.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/engine.hpp>
#include <tw/mpi/error.hpp>
#include <tw/mpi/interop.hpp>
#include <tw/tensor/tensor_spec.hpp>
#include <vector>

#include "comparison.hpp"
#include "part.hpp"

namespace tw::tool::selftest {
namespace {

bool is_in_place(const Call& call) {
  return call.collective == Collective::broadcast || call.collective == Collective::allreduce || call.collective == Collective::reduce;
}

/// This rank's contribution.
at::Tensor input_of(const Communicator& comm, const Call& call) {
  const bool has_parts =
      call.collective == Collective::reduce_scatter || call.collective == Collective::alltoall || call.collective == Collective::scatter;
  const int64_t parts = has_parts ? comm.size() : 1;
  const at::Tensor numbers = at::arange(call.count * parts, at::kLong);
  return ((numbers + 3 * comm.rank()) % 7 - 2).to(dtype_of(call.type));
}

/// Zeros, where the result goes unless the call is in place.
at::Tensor output_of(const Communicator& comm, const Call& call) {
  const bool is_part = call.collective == Collective::reduce_scatter || call.collective == Collective::scatter;
  return at::zeros({is_part ? call.count : call.count * comm.size()}, dtype_of(call.type));
}

MPI_Datatype mpi_type(ElementType type) {
  switch (type) {
    case ElementType::int32: return MPI_INT32_T;
    case ElementType::int64: return MPI_INT64_T;
    case ElementType::float32: return MPI_FLOAT;
    default: return MPI_DOUBLE;
  }
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::min: return MPI_MIN;
    case ReduceOp::max: return MPI_MAX;
    default: return MPI_SUM;
  }
}

/// A call of MPI's own. The engine waits for it as for the library's operations: it names late ranks, ends the wait when the communicator is revoked,
/// and keeps the tensors until then.
class MpiCall : public mpi::Transfer {
 public:
  MpiCall(const Communicator& comm, const Call& call, at::Tensor input, at::Tensor output)
      : name_(comm.name()), call_(call), input_(std::move(input)), output_(std::move(output)) {
    check(begin(native_handle(comm), comm.rank() == call.peer));
  }
  bool advance() override {
    int done = 0;
    check(MPI_Test(&request_, &done, MPI_STATUS_IGNORE));
    return done != 0;
  }

 private:
  int begin(MPI_Comm comm, bool is_root) {
    void* in = input_.numel() > 0 ? input_.data_ptr() : &no_input_;
    void* out = output_.numel() > 0 ? output_.data_ptr() : &no_output_;
    const int count = static_cast<int>(call_.count);
    const int root = call_.peer;
    const MPI_Datatype type = mpi_type(call_.type);
    const MPI_Op op = mpi_op(call_.op);
    switch (call_.collective) {
      case Collective::broadcast: return MPI_Ibcast(in, count, type, root, comm, &request_);
      case Collective::allreduce: return MPI_Iallreduce(MPI_IN_PLACE, in, count, type, op, comm, &request_);
      case Collective::reduce: return MPI_Ireduce(is_root ? MPI_IN_PLACE : in, is_root ? in : nullptr, count, type, op, root, comm, &request_);
      case Collective::allgather: return MPI_Iallgather(in, count, type, out, count, type, comm, &request_);
      case Collective::reduce_scatter: return MPI_Ireduce_scatter_block(in, out, count, type, op, comm, &request_);
      case Collective::gather: return MPI_Igather(in, count, type, out, count, type, root, comm, &request_);
      case Collective::scatter: return MPI_Iscatter(in, count, type, out, count, type, root, comm, &request_);
      default: return MPI_Ialltoall(in, count, type, out, count, type, comm, &request_);
    }
  }
  void check(int code) const {
    if (code != MPI_SUCCESS) throw MpiError("MPI's own " + call_.describe(), code, "", name_);
  }

  std::string name_;
  Call call_;
  at::Tensor input_;
  at::Tensor output_;
  std::byte no_input_{};  // an MPI may refuse equal pointers, also those to no elements
  std::byte no_output_{};
  MPI_Request request_ = MPI_REQUEST_NULL;
};

at::Tensor result_of_mpi(const Communicator& comm, const Call& call) {
  const at::Tensor input = input_of(comm, call);
  const at::Tensor output = output_of(comm, call);
  mpi::start(comm, call, std::make_unique<MpiCall>(comm, call, input, output)).wait();
  return is_in_place(call) ? input : output;
}

at::Tensor result_of_library(const Communicator& comm, const Call& call, bool is_wrong_here) {
  const at::Tensor input = input_of(comm, call);
  const at::Tensor output = output_of(comm, call);
  if (is_wrong_here) input.add_(1);
  switch (call.collective) {
    case Collective::broadcast: broadcast(comm, input, Rank(call.peer)); break;
    case Collective::allreduce: allreduce(comm, input, call.op); break;
    case Collective::reduce: reduce(comm, input, call.op, Rank(call.peer)); break;
    case Collective::allgather: allgather(comm, input, output); break;
    case Collective::reduce_scatter: reduce_scatter(comm, input, output, call.op); break;
    case Collective::gather: gather(comm, input, output.chunk(comm.size()), Rank(call.peer)); break;
    case Collective::scatter: scatter(comm, input.chunk(comm.size()), output, Rank(call.peer)); break;
    default: alltoall(comm, input, output); break;
  }
  return is_in_place(call) ? input : output;
}

/// All roots of few ranks; the first, the middle and the last of many.
std::set<int> roots(int ranks) {
  if (ranks > 4) return {0, ranks / 2, ranks - 1};
  std::set<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.insert(rank);
  return all;
}

std::vector<Call> calls_on(ElementType type, int ranks) {
  std::vector<Call> all;
  const int64_t some = 7;
  const int64_t most = std::max<int64_t>(9, 100000 / ranks);  // elements of a part, so that results have at most a few MB
  for (const int64_t count : {int64_t{0}, int64_t{1}, some, most}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
      if (op != ReduceOp::sum && count != some) continue;
      all.push_back({.collective = Collective::allreduce, .op = op, .type = type, .count = count});
      all.push_back({.collective = Collective::reduce_scatter, .op = op, .type = type, .count = count});
    }
    for (const int root : count > 1 ? roots(ranks) : std::set<int>{ranks - 1}) {
      for (const Collective collective : {Collective::broadcast, Collective::reduce, Collective::gather, Collective::scatter}) {
        all.push_back({.collective = collective, .type = type, .peer = root, .count = count});
      }
    }
    all.push_back({.collective = Collective::allgather, .type = type, .count = count});
    all.push_back({.collective = Collective::alltoall, .type = type, .count = count});
  }
  return all;
}

/// What each backend can do with host tensors.
std::map<std::string, std::set<Collective>> abilities(const Communicator& comm) {
  std::map<std::string, std::set<Collective>> found;
  for (const Availability& entry : availability(comm)) {
    if (!entry.on_device && entry.why_not.empty()) found[entry.backend].insert(entry.collective);
  }
  return found;
}

}  // namespace

Outcome compare_collectives(const Communicator& comm, const Conditions& conditions) {
  Comparison comparison;
  const auto backends = abilities(comm);
  for (const ElementType type : {ElementType::int32, ElementType::int64, ElementType::float32, ElementType::float64}) {
    const std::vector<Call> calls = calls_on(type, comm.size());
    std::vector<at::Tensor> expected;
    for (const Call& call : calls) expected.push_back(result_of_mpi(comm, call));
    const auto compare = [&](size_t i, const std::string& how) {
      const at::Tensor ours = result_of_library(comm, calls[i], conditions.is_wrong_here);
      comparison.expect(ours.equal(expected[i]), concat(calls[i].describe(), " by ", how, " differs from MPI's own"));
    };
    for (const auto& [backend, collectives] : backends) {
      choose_backend(comm, backend);
      for (size_t i = 0; i < calls.size(); ++i) {
        if (collectives.contains(calls[i].collective)) compare(i, backend);
      }
    }
    choose_backend(comm, std::nullopt);
    for (size_t i = 0; i < calls.size(); ++i) compare(i, "the default backend");
  }
  return comparison.outcome();
}

}  // namespace tw::tool::selftest
