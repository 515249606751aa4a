// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/collectives.hpp>

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <tw/base/contract.hpp>
#include <tw/comm/objects.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/library.hpp>
#include <tw/tensor/tensor_spec.hpp>

#include "audit.hpp"
#include "group.hpp"
#include "link.hpp"
#include "operands.hpp"
#include "with_ending.hpp"

namespace tw {
namespace {

void expect_defined(ReduceOp op, const at::Tensor& tensor) {
  TW_EXPECTS(tensor.defined(), "a reduction was given an undefined tensor");
  const ElementType type = element_type(tensor.scalar_type());
  const std::string_view why = why_undefined(op, type);
  TW_EXPECTS(why.empty(), name_of(op), " is not defined for ", name_of(type), ": ", why);
}

Call make_call(Collective collective, const at::Tensor& tensor) {
  TW_EXPECTS(tensor.defined(), name_of(collective), " was given an undefined tensor");
  return {.collective = collective, .type = element_type(tensor.scalar_type()), .on_device = !tensor.is_cpu(), .count = tensor.numel()};
}

// The backend that works in device memory; null: `call` is staged, or its tensors are on the host. Checks the tensors first, because Link::of()
// starts an operation that MPI must finish.
Backend* device_backend_for(const Communicator& comm, const Call& call, std::initializer_list<at::Tensor> tensors) {
  if (!call.on_device) return nullptr;
  for (const at::Tensor& tensor : tensors) {
    expect_supported_tensor(call.collective, tensor);
    expect_lies_on(call.collective, tensor, tensors.begin()->device());
  }
  return Link::of(comm).device_backend(comm, call, tensors.begin()->device());
}

std::shared_ptr<Operands> operands_for(const Communicator& comm, const Call& call, Backend* device_backend) {
  if (device_backend == nullptr) return std::make_shared<Operands>(call.collective, comm.audited());
  return std::make_shared<Operands>(call.collective, comm.audited(), device_backend->passage(), [device_backend] { device_backend->give_up(); });
}

// Staged tensors are copied in parts of this size. It is large enough to hide the launch cost (0.1 ms to copy, 0.01 ms to launch). It is small enough
// that a 64 MiB tensor keeps the network and both directions of the device bus busy nine tenths of the time.
constexpr int64_t staged_part_bytes = int64_t{4} << 20;

// Whether the call is split into parts. Not on audited communicators, which check tensor versions: results copied out early would look like changes
// by the user.
bool goes_in_parts(const Communicator& comm, const Call& call, const Backend* device_backend) {
  return call.on_device && device_backend == nullptr && !comm.audited() && call.count * element_bytes(call.type) > staged_part_bytes;
}

std::unique_ptr<mpi::Transfer> begin_in_parts(const Communicator& comm, const Call& call, const std::vector<Operands::Part>& parts) {
  auto group = std::make_unique<Group>();
  Link& link = Link::of(comm);
  const auto refused = std::make_shared<bool>(false);
  for (const Operands::Part& part : parts) {
    Call moved = call;
    moved.count = part.count;
    const BoundCall bound{call, part.memory, part.memory, {}, CallPart{moved, refused}};
    const auto copy_out = [refused, back = part.copy_out] {
      if (!*refused) back();
    };
    group->add([&] { return std::make_unique<WithEnding>(link.begin(comm, bound, part.ready), copy_out); });
  }
  return group;
}

// For calls whose input and output are the same tensor.
Work begin_in_place(const Communicator& comm, const Call& call, const at::Tensor& tensor) {
  const bool receives = call.collective == Collective::broadcast && call.peer != comm.rank();
  const bool writes = receives || call.collective == Collective::allreduce || (call.collective == Collective::reduce && call.peer == comm.rank());
  Backend* device_backend = device_backend_for(comm, call, {tensor});
  auto operands = operands_for(comm, call, device_backend);
  if (goes_in_parts(comm, call, device_backend)) {
    const auto parts = operands->in_parts(tensor, staged_part_bytes / element_bytes(call.type), !receives, writes);
    return start(comm, call, begin_in_parts(comm, call, parts), std::move(operands));
  }
  std::byte* memory = writes ? operands->in_place(tensor).data() : const_cast<std::byte*>(operands->in(tensor).data());
  Link& link = Link::of(comm);
  auto ready = both_ready(audited_start(comm, call, tensor), operands->ready());
  auto transfer = link.begin(comm, {call, memory, memory, operands->stream()}, std::move(ready), device_backend);
  return start(comm, call, std::move(transfer), std::move(operands));
}

Work begin(const Communicator& comm, const Call& call, const at::Tensor& input, const at::Tensor& output) {
  TW_EXPECTS(output.defined(), name_of(call.collective), " was given an undefined output");
  TW_EXPECTS(output.scalar_type() == input.scalar_type(), name_of(call.collective), " was given an input of ", dtype_name(input.scalar_type()),
             " and an output of ", dtype_name(output.scalar_type()));
  Backend* device_backend = device_backend_for(comm, call, {input, output});
  auto operands = operands_for(comm, call, device_backend);
  const std::byte* from = operands->in(input).data();
  std::byte* to = operands->out(output).data();
  Link& link = Link::of(comm);
  auto ready = both_ready(audited_start(comm, call, input), operands->ready());
  auto transfer = link.begin(comm, {call, from, to, operands->stream()}, std::move(ready), device_backend);
  return start(comm, call, std::move(transfer), std::move(operands));
}

// The device backend that supports every call of a group; null: the group is staged.
Backend* device_backend_for_all(const Communicator& comm, Call call, const std::map<ElementType, std::vector<at::Tensor>>& by_type) {
  std::set<Backend*> backends;
  for (const auto& [type, tensors] : by_type) {
    call.type = type;
    call.on_device = !tensors[0].is_cpu();
    for (const at::Tensor& tensor : tensors) backends.insert(device_backend_for(comm, call, {tensors[0], tensor}));
  }
  return backends.size() == 1 ? *backends.begin() : nullptr;
}

// One call per dtype among `tensors`, on all tensors of that dtype packed together.
Work begin_group(const Communicator& comm, Call call, const std::vector<at::Tensor>& tensors) {
  std::map<ElementType, std::vector<at::Tensor>> by_type;
  for (const at::Tensor& tensor : tensors) by_type[make_call(call.collective, tensor).type].push_back(tensor);
  Backend* device_backend = device_backend_for_all(comm, call, by_type);
  auto operands = operands_for(comm, call, device_backend);
  std::vector<BoundCall> calls;
  for (const auto& [type, of_type] : by_type) {
    const std::span<std::byte> memory = operands->in_place(of_type);
    call.type = type;
    call.on_device = !of_type[0].is_cpu();
    call.count = static_cast<int64_t>(memory.size()) / element_bytes(type);
    calls.push_back({call, memory.data(), memory.data(), operands->stream()});
  }
  auto group = std::make_unique<Group>();  // started only after all checks: a started transfer must run to its end
  Link& link = Link::of(comm);
  for (const BoundCall& bound : calls) {
    group->add([&] {
      auto ready = both_ready(audited_start(comm, bound.call, by_type.at(bound.call.type)[0]), operands->ready());
      return link.begin(comm, bound, std::move(ready), device_backend);
    });
  }
  return start(comm, call, std::move(group), std::move(operands));
}

void expect_one_each(const Communicator& comm, const char* what, const std::vector<at::Tensor>& tensors) {
  TW_EXPECTS(tensors.size() == static_cast<size_t>(comm.size()), what, " needs one tensor for each of ", comm.size(), " ranks, got ", tensors.size());
}

// All tensors of a list have the same dtype, on all ranks.
void expect_one_dtype(Collective collective, const at::Tensor& first, const std::vector<at::Tensor>& others) {
  for (const at::Tensor& other : others) {
    TW_EXPECTS(first.defined() && other.defined(), name_of(collective), " was given an undefined tensor");
    TW_EXPECTS(first.scalar_type() == other.scalar_type(), name_of(collective), " was given tensors of ", dtype_name(first.scalar_type()), " and of ",
               dtype_name(other.scalar_type()), ": all tensors of a call must have the same dtype");
  }
}

/// The messages that make up a collective.
struct Messages {
  ElementType type;
  std::vector<mpi::PeerBuffer> sends = {};
  std::vector<mpi::PeerBuffer> receives = {};

  mpi::PeerBuffer with(int rank, std::span<const std::byte> memory) const {
    return {Rank(rank), {const_cast<std::byte*>(memory.data()), static_cast<int64_t>(memory.size()) / element_bytes(type), type}};
  }
};

Work begin_exchange(const Communicator& comm, const Call& call, Messages messages, std::shared_ptr<Operands> operands) {
  const auto begin = [collective = call.collective, messages = std::move(messages)](const Communicator& of) {
    return mpi::exchange_transfer(of, collective, messages.sends, messages.receives);
  };
  const auto begin_in_turn = [begin, arrived = operands->ready()](const Communicator& of) {
    return mpi::message_queue(of).start(of, begin, arrived);
  };
  if (!comm.audited()) return start(comm, call, begin_in_turn(comm), std::move(operands));
  // Other ranks can delay an audit, which must not delay messages between two ranks.
  Link& link = Link::of(comm);
  auto transfer = link.begin(comm, begin_in_turn, audited_start(comm, call));
  return start(comm, call, std::move(transfer), std::move(operands));
}

}  // namespace

Work ibarrier(const Communicator& comm) {
  const Call call{.collective = Collective::barrier};
  return mpi::start(comm, call, Link::of(comm).begin(comm, BoundCall{call}, audited_start(comm, call)));
}

Work ibroadcast(const Communicator& comm, const at::Tensor& tensor, Rank root) {
  mpi::expect_rank(comm, root);
  Call call = make_call(Collective::broadcast, tensor);
  call.peer = root;
  return begin_in_place(comm, call, tensor);
}

Work ibroadcast(const Communicator& comm, const std::vector<at::Tensor>& tensors, Rank root) {
  mpi::expect_rank(comm, root);
  return begin_group(comm, {.collective = Collective::broadcast, .peer = root}, tensors);
}

Work iallreduce(const Communicator& comm, const at::Tensor& tensor, ReduceOp op) {
  expect_defined(op, tensor);
  Call call = make_call(Collective::allreduce, tensor);
  call.op = op;
  return begin_in_place(comm, call, tensor);
}

Work iallreduce(const Communicator& comm, const std::vector<at::Tensor>& tensors, ReduceOp op) {
  for (const at::Tensor& tensor : tensors) expect_defined(op, tensor);
  return begin_group(comm, {.collective = Collective::allreduce, .op = op}, tensors);
}

Work ireduce(const Communicator& comm, const at::Tensor& tensor, ReduceOp op, Rank root) {
  mpi::expect_rank(comm, root);
  expect_defined(op, tensor);
  Call call = make_call(Collective::reduce, tensor);
  call.op = op;
  call.peer = root;
  return begin_in_place(comm, call, tensor);
}

Work iallgather(const Communicator& comm, const at::Tensor& input, const at::Tensor& output) {
  const Call call = make_call(Collective::allgather, input);
  TW_EXPECTS(output.defined() && output.numel() == call.count * comm.size(), "allgather of ", call.count, " elements over ", comm.size(),
             " ranks needs an output of ", call.count * comm.size(), " elements");
  return begin(comm, call, input, output);
}

Work ireduce_scatter(const Communicator& comm, const at::Tensor& input, const at::Tensor& output, ReduceOp op) {
  expect_defined(op, input);
  Call call = make_call(Collective::reduce_scatter, input);
  call.op = op;
  TW_EXPECTS(output.defined() && output.numel() * comm.size() == call.count, "reduce_scatter over ", comm.size(), " ranks needs an input of ",
             comm.size(), " times the elements of its output, got ", call.count);
  return begin(comm, call, input, output);
}

Work ialltoall(const Communicator& comm, const at::Tensor& input, const at::Tensor& output) {
  const Call call = make_call(Collective::alltoall, input);
  TW_EXPECTS(output.defined() && output.numel() == call.count && call.count % comm.size() == 0, "alltoall over ", comm.size(),
             " ranks needs an input and an output of the same size, a multiple of the number of ranks, got ", call.count, " and ",
             output.defined() ? output.numel() : 0);
  return begin(comm, call, input, output);
}

Work ialltoall(const Communicator& comm, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs) {
  expect_one_each(comm, "the input of alltoall", inputs);
  expect_one_each(comm, "the output of alltoall", outputs);
  expect_one_dtype(Collective::alltoall, inputs[0], inputs);
  expect_one_dtype(Collective::alltoall, inputs[0], outputs);
  const Call call{.collective = Collective::alltoall, .type = element_type(inputs[0].scalar_type())};
  auto operands = std::make_shared<Operands>(call.collective, comm.audited(), passage_of_messages(comm, inputs[0]));
  Messages messages{.type = call.type};
  for (int i = 0; i < comm.size(); ++i) {  // each rank starts with a different peer
    const int rank = (comm.rank() + i) % comm.size();
    messages.receives.push_back(messages.with(rank, operands->out(outputs[static_cast<size_t>(rank)])));
    messages.sends.push_back(messages.with(rank, operands->in(inputs[static_cast<size_t>(rank)])));
  }
  return begin_exchange(comm, call, std::move(messages), std::move(operands));
}

Work igather(const Communicator& comm, const at::Tensor& input, const std::vector<at::Tensor>& outputs, Rank root) {
  mpi::expect_rank(comm, root);
  const Call call{.collective = Collective::gather, .type = make_call(Collective::gather, input).type, .peer = root};
  auto operands = std::make_shared<Operands>(call.collective, comm.audited(), passage_of_messages(comm, input));
  Messages messages{.type = call.type};
  messages.sends.push_back(messages.with(root, operands->in(input)));
  if (comm.rank() == root) {
    expect_one_each(comm, "the output of gather", outputs);
    expect_one_dtype(call.collective, input, outputs);
    for (int rank = 0; rank < comm.size(); ++rank)
      messages.receives.push_back(messages.with(rank, operands->out(outputs[static_cast<size_t>(rank)])));
  }
  return begin_exchange(comm, call, std::move(messages), std::move(operands));
}

Work iscatter(const Communicator& comm, const std::vector<at::Tensor>& inputs, const at::Tensor& output, Rank root) {
  mpi::expect_rank(comm, root);
  const Call call{.collective = Collective::scatter, .type = make_call(Collective::scatter, output).type, .peer = root};
  auto operands = std::make_shared<Operands>(call.collective, comm.audited(), passage_of_messages(comm, output));
  Messages messages{.type = call.type};
  if (comm.rank() == root) {
    expect_one_each(comm, "the input of scatter", inputs);
    expect_one_dtype(call.collective, output, inputs);
    for (int rank = 0; rank < comm.size(); ++rank) messages.sends.push_back(messages.with(rank, operands->in(inputs[static_cast<size_t>(rank)])));
  }
  messages.receives.push_back(messages.with(root, operands->out(output)));
  return begin_exchange(comm, call, std::move(messages), std::move(operands));
}

// Exchanges dtypes and shapes first, then all elements packed together.
std::vector<at::Tensor> allgather_variable(const Communicator& comm, const at::Tensor& input) {
  auto operands = std::make_shared<Operands>(Collective::allgather, comm.audited(), passage_of_messages(comm, input));
  const std::span<const std::byte> mine = operands->in(input);
  const Call call{.collective = Collective::allgather, .type = element_type(input.scalar_type())};
  if (comm.audited()) (void)Link::of(comm);  // another rank may make a different call, which starts the link: all ranks must start it
  wait_for_audit(comm, call);
  std::vector<int64_t> spec = input.sizes().vec();
  spec.push_back(static_cast<int64_t>(call.type));
  const auto specs = allgather_strings(comm, std::string(reinterpret_cast<const char*>(spec.data()), spec.size() * sizeof(int64_t)));
  std::vector<std::vector<int64_t>> sizes;
  std::vector<int64_t> bytes;
  for (const std::string& theirs : specs) {
    sizes.emplace_back(theirs.size() / sizeof(int64_t));
    std::memcpy(sizes.back().data(), theirs.data(), theirs.size());
    const auto type = static_cast<ElementType>(sizes.back().back());
    TW_EXPECTS(type == static_cast<ElementType>(sizes[0].back()), "allgather_variable needs one dtype: rank ", sizes.size() - 1, " passes ",
               name_of(type), " where rank 0 passes ", name_of(static_cast<ElementType>(sizes[0].back())));
  }
  for (auto& size : sizes) {
    size.pop_back();
    bytes.push_back(c10::multiply_integers(size) * input.element_size());
  }
  const int64_t total = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  const at::Tensor all = at::empty({total / input.element_size()}, input.options().requires_grad(false));
  std::byte* memory = operands->out(all).data();
  const auto begin = [mine, memory, bytes](const Communicator& of) { return mpi::allgather_transfer(of, mine, memory, bytes); };
  auto transfer = mpi::collective_queue(comm).start(comm, begin, operands->ready());
  start(comm, call, std::move(transfer), std::move(operands)).wait();
  std::vector<at::Tensor> tensors;
  for (int64_t at = 0; const auto& size : sizes) {
    tensors.push_back(all.narrow(0, at, c10::multiply_integers(size)).view(size));
    at += c10::multiply_integers(size);
  }
  return tensors;
}

void barrier(const Communicator& comm) { ibarrier(comm).wait(); }
void broadcast(const Communicator& comm, const at::Tensor& tensor, Rank root) { ibroadcast(comm, tensor, root).wait(); }
void broadcast(const Communicator& comm, const std::vector<at::Tensor>& tensors, Rank root) { ibroadcast(comm, tensors, root).wait(); }
void allreduce(const Communicator& comm, const at::Tensor& tensor, ReduceOp op) { iallreduce(comm, tensor, op).wait(); }
void allreduce(const Communicator& comm, const std::vector<at::Tensor>& tensors, ReduceOp op) { iallreduce(comm, tensors, op).wait(); }
void reduce(const Communicator& comm, const at::Tensor& tensor, ReduceOp op, Rank root) { ireduce(comm, tensor, op, root).wait(); }
void allgather(const Communicator& comm, const at::Tensor& input, const at::Tensor& output) { iallgather(comm, input, output).wait(); }
void reduce_scatter(const Communicator& comm, const at::Tensor& input, const at::Tensor& output, ReduceOp op) {
  ireduce_scatter(comm, input, output, op).wait();
}
void alltoall(const Communicator& comm, const at::Tensor& input, const at::Tensor& output) { ialltoall(comm, input, output).wait(); }
void alltoall(const Communicator& comm, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs) {
  ialltoall(comm, inputs, outputs).wait();
}
void gather(const Communicator& comm, const at::Tensor& input, const std::vector<at::Tensor>& outputs, Rank root) {
  igather(comm, input, outputs, root).wait();
}
void scatter(const Communicator& comm, const std::vector<at::Tensor>& inputs, const at::Tensor& output, Rank root) {
  iscatter(comm, inputs, output, root).wait();
}

}  // namespace tw
