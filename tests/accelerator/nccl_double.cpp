// SPDX-License-Identifier: Apache-2.0
// NCCL for the simulated devices, in programs that link tw_nccl_double. A collective is work in a stream that involves all ranks, which meet in a
// shared memory file. As with NCCL, the host does not block, ranks must call in the same order, and abort ends calls that would never complete.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mul.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "accelerator.hpp"
#include "memory.hpp"
#include "nccl_double.hpp"
#include "nccl_library.hpp"
#include "streams.hpp"

namespace accelerator = tw::testing::accelerator;
using namespace tw::nccl;

namespace {

constexpr Result success = Result::success;
constexpr Result invalid_argument = Result{4};
constexpr Result in_progress = Result::in_progress;
constexpr size_t slot_bytes = size_t{16} << 20;  // per rank; pages are allocated on first touch
constexpr int max_ranks = 16;

struct Place {
  std::atomic<uint64_t> given;  // calls for which this rank's input is in its slot
  std::atomic<uint64_t> taken;  // calls for which it has read all inputs
};

struct Shared {
  std::atomic<int> joined;
  std::array<Place, max_ranks> places;
};

bool offered = false;
std::atomic<int> aborted = 0;

}  // namespace

struct tw::nccl::Comm {
  int rank = 0;
  int ranks = 0;
  std::string name;
  Shared* shared = nullptr;
  std::byte* slots = nullptr;
  uint64_t calls = 0;
  int begins = 0;  // polls left until the host part of the current call is complete
  std::shared_ptr<std::atomic<bool>> given_up = std::make_shared<std::atomic<bool>>(false);

  static size_t bytes(int ranks) { return sizeof(Shared) + static_cast<size_t>(ranks) * slot_bytes; }
  std::byte* slot(int of) const { return slots + static_cast<size_t>(of) * slot_bytes; }
  bool all(std::atomic<uint64_t> Place::* what, uint64_t count) const {
    for (int i = 0; i < ranks; ++i) {
      if ((shared->places[static_cast<size_t>(i)].*what).load(std::memory_order_acquire) < count) return false;
    }
    return true;
  }
};

namespace {

at::ScalarType dtype_of(Type type) {
  constexpr std::array types{at::kChar, at::kByte, at::kInt, at::kUInt32, at::kLong, at::kUInt64, at::kHalf, at::kFloat, at::kDouble, at::kBFloat16};
  return types.at(static_cast<size_t>(type));
}

at::Tensor seen(const void* memory, int64_t count, Type type) {
  return at::from_blob(accelerator::opened(const_cast<void*>(memory)), {count}, at::TensorOptions().dtype(dtype_of(type)));
}

// Null pointers are allowed for zero bytes.
void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

at::Tensor combined(const at::Tensor& a, const at::Tensor& b, Op op) {
  switch (op) {
    case Op::product: return a.mul(b);
    case Op::max: return a.maximum(b);
    case Op::min: return a.minimum(b);
    default: return a.add(b);
  }
}

// Reduces elements from `at` on over all ranks' inputs. Halves are summed as float32, since the order is free anyway.
at::Tensor reduced(const Comm& comm, int64_t at, int64_t count, Type type, Op op) {
  const auto input = [&](int rank) {
    const at::Tensor given = at::from_blob(comm.slot(rank), {at + count}, at::TensorOptions().dtype(dtype_of(type))).narrow(0, at, count);
    return given.element_size() == 2 ? given.to(at::kFloat) : given;
  };
  at::Tensor result = input(0).clone();
  for (int rank = 1; rank < comm.ranks; ++rank) result = combined(result, input(rank), op);
  return (op == Op::average ? result.div(comm.ranks) : result).to(dtype_of(type));
}

// A call: `give` writes this rank's input into its slot, `take` reads all ranks' inputs.
Result put(Comm* comm, void* stream, std::function<void()> give, std::function<void()> take) {
  if (std::exchange(comm->begins, 2) > 0) return invalid_argument;  // "before the previous operation returned ncclSuccess"
  const uint64_t number = ++comm->calls;
  const auto given_up = comm->given_up;
  Place& mine = comm->shared->places[static_cast<size_t>(comm->rank)];
  accelerator::put_attempts(accelerator::stream_of_handle(stream), [=, &mine, give = std::move(give), take = std::move(take)] {
    if (*given_up) return true;
    if (mine.given.load() < number) {
      if (!comm->all(&Place::taken, number - 1)) return false;
      give();
      mine.given.store(number, std::memory_order_release);
    }
    if (!comm->all(&Place::given, number)) return false;
    take();
    mine.taken.store(number, std::memory_order_release);
    return true;
  });
  return in_progress;
}

Result put_moving(Comm* comm, void* stream, const void* input, size_t bytes, std::function<void()> take) {
  if (bytes > slot_bytes) return invalid_argument;
  return put(comm, stream, [=] { copy_bytes(comm->slot(comm->rank), accelerator::opened(const_cast<void*>(input)), bytes); }, std::move(take));
}

size_t size_of(Type type) { return at::elementSize(dtype_of(type)); }

// Messages of a group, which form one call of all ranks.
struct Message {
  const void* from = nullptr;
  void* to = nullptr;
  size_t bytes = 0;
  int peer = 0;
};
std::vector<Message> messages;
Comm* comm_of_messages = nullptr;
void* stream_of_messages = nullptr;

Result get_version(int* version) {
  *version = 23000;
  return success;
}

Result get_unique_id(Id* id) {
  static int made = 0;
  *id = {};
  const std::string name = "/tw_nccl_double_" + std::to_string(getpid()) + "_" + std::to_string(made++);
  copy_bytes(id->bytes, name.c_str(), name.size());
  return success;
}

Result comm_init_rank_config(Comm** result, int ranks, Id id, int rank, Config* config) {
  if (ranks > max_ranks || config == nullptr) return invalid_argument;
  auto comm = std::make_unique<Comm>();
  comm->rank = rank;
  comm->ranks = ranks;
  comm->name = id.bytes;
  const int file = shm_open(id.bytes, O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(Comm::bytes(ranks))) != 0) return invalid_argument;
  void* memory = mmap(nullptr, Comm::bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (memory == MAP_FAILED) return invalid_argument;
  comm->shared = static_cast<Shared*>(memory);
  comm->slots = static_cast<std::byte*>(memory) + sizeof(Shared);
  if (++comm->shared->joined == ranks) shm_unlink(id.bytes);
  *result = comm.release();
  return in_progress;
}

Result comm_get_async_error(Comm* comm, Result* state) {
  if (comm->begins > 0) --comm->begins;
  *state = comm->shared->joined == comm->ranks && comm->begins == 0 ? success : in_progress;
  return success;
}

// Frees no memory: aborted work may still access it.
Result comm_abort(Comm* comm) {
  *comm->given_up = true;
  ++aborted;
  return success;
}

const char* get_error_string(Result) { return "an error of the double"; }
const char* get_last_error(Comm*) { return "none"; }

Result all_reduce(const void* input, void* output, size_t count, Type type, Op op, Comm* comm, void* stream) {
  const auto n = static_cast<int64_t>(count);
  return put_moving(comm, stream, input, count * size_of(type), [=] { seen(output, n, type).copy_(reduced(*comm, 0, n, type, op)); });
}

Result reduce(const void* input, void* output, size_t count, Type type, Op op, int root, Comm* comm, void* stream) {
  const auto n = static_cast<int64_t>(count);
  return put_moving(comm, stream, input, count * size_of(type), [=] {
    if (comm->rank == root) seen(output, n, type).copy_(reduced(*comm, 0, n, type, op));
  });
}

Result reduce_scatter(const void* input, void* output, size_t each, Type type, Op op, Comm* comm, void* stream) {
  const auto n = static_cast<int64_t>(each);
  return put_moving(comm, stream, input, each * size_of(type) * static_cast<size_t>(comm->ranks),
                    [=] { seen(output, n, type).copy_(reduced(*comm, n * comm->rank, n, type, op)); });
}

Result all_gather(const void* input, void* output, size_t each, Type type, Comm* comm, void* stream) {
  const size_t bytes = each * size_of(type);
  return put_moving(comm, stream, input, bytes, [=] {
    auto* to = static_cast<std::byte*>(accelerator::opened(output));
    for (int rank = 0; rank < comm->ranks; ++rank) copy_bytes(to + static_cast<size_t>(rank) * bytes, comm->slot(rank), bytes);
  });
}

Result broadcast(const void* input, void* output, size_t count, Type type, int root, Comm* comm, void* stream) {
  const size_t bytes = comm->rank == root ? count * size_of(type) : 0;
  return put_moving(comm, stream, input, bytes, [=] { copy_bytes(accelerator::opened(output), comm->slot(root), count * size_of(type)); });
}

Result group_start() {
  messages.clear();
  return success;
}

Result send(const void* memory, size_t count, Type type, int peer, Comm* comm, void* stream) {
  messages.push_back({.from = memory, .bytes = count * size_of(type), .peer = peer});
  comm_of_messages = comm;
  stream_of_messages = stream;
  return success;
}

Result receive(void* memory, size_t count, Type type, int peer, Comm* comm, void* stream) {
  messages.push_back({.to = memory, .bytes = count * size_of(type), .peer = peer});
  comm_of_messages = comm;
  stream_of_messages = stream;
  return success;
}

// Each rank's slot has a part of equal size for each other rank.
Result group_end() {
  Comm* const comm = comm_of_messages;
  const auto part = [](Comm* of, int from, int to, size_t bytes) { return of->slot(from) + static_cast<size_t>(to) * bytes; };
  const auto give = [=, all = messages] {
    for (const Message& m : all) {
      if (m.from != nullptr) copy_bytes(part(comm, comm->rank, m.peer, m.bytes), accelerator::opened(const_cast<void*>(m.from)), m.bytes);
    }
  };
  const auto take = [=, all = messages] {
    for (const Message& m : all) {
      if (m.to != nullptr) copy_bytes(accelerator::opened(m.to), part(comm, m.peer, comm->rank, m.bytes), m.bytes);
    }
  };
  return put(comm, stream_of_messages, give, take);
}

constexpr Library functions{
    .get_version = get_version,
    .get_unique_id = get_unique_id,
    .comm_init_rank_config = comm_init_rank_config,
    .comm_abort = comm_abort,
    .comm_get_async_error = comm_get_async_error,
    .get_error_string = get_error_string,
    .get_last_error = get_last_error,
    .all_reduce = all_reduce,
    .reduce = reduce,
    .reduce_scatter = reduce_scatter,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .send = send,
    .receive = receive,
    .group_start = group_start,
    .group_end = group_end,
};

}  // namespace

namespace tw::testing::accelerator {

void offer_nccl() {
  offered = true;
  Library::replace(&functions);
}
bool nccl_is_offered() { return offered; }
int nccl_aborts() { return aborted; }

}  // namespace tw::testing::accelerator
