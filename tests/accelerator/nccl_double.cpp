// SPDX-License-Identifier: Apache-2.0
// NCCL for the simulated devices: its C functions, found by name in programs that link tw_nccl_double. A collective is work in a stream that takes
// all ranks, which meet in a file of shared memory. As with NCCL, the host is not held up, ranks must call in one order, and abort ends what never
// would.
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
#include <vector>

#include "accelerator.hpp"
#include "memory.hpp"
#include "nccl_double.hpp"
#include "streams.hpp"

namespace accelerator = tw::testing::accelerator;

namespace {

constexpr int success = 0;
constexpr int invalid_argument = 4;
constexpr int in_progress = 7;
constexpr size_t slot_bytes = size_t{16} << 20;  // of a rank; pages are taken as they are touched
constexpr int most_ranks = 16;

struct UniqueId {
  char bytes[128];
};

struct Place {
  std::atomic<uint64_t> given;  // calls of which this rank's input lies in its slot
  std::atomic<uint64_t> taken;  // calls of which it has read all inputs
};

struct Shared {
  std::atomic<int> joined;
  std::array<Place, most_ranks> places;
};

std::atomic<int> aborted = 0;

}  // namespace

/// What the program knows as ncclComm_t.
struct ncclComm {
  int rank = 0;
  int ranks = 0;
  std::string name;
  Shared* shared = nullptr;
  std::byte* slots = nullptr;
  uint64_t calls = 0;
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

at::ScalarType dtype_of(int type) {
  constexpr std::array types{at::kChar, at::kByte, at::kInt, at::kUInt32, at::kLong, at::kUInt64, at::kHalf, at::kFloat, at::kDouble, at::kBFloat16};
  return types.at(static_cast<size_t>(type));
}

at::Tensor seen(const void* memory, int64_t count, int type) {
  return at::from_blob(accelerator::opened(const_cast<void*>(memory)), {count}, at::TensorOptions().dtype(dtype_of(type)));
}

at::Tensor combined(const at::Tensor& a, const at::Tensor& b, int op) {
  switch (op) {
    case 1: return a.mul(b);
    case 2: return a.maximum(b);
    case 3: return a.minimum(b);
    default: return a.add(b);
  }
}

// Elements `at` and after of what all ranks gave; halves are summed as float32, since the order is free anyway.
at::Tensor reduced(const ncclComm& comm, int64_t at, int64_t count, int type, int op) {
  const auto input = [&](int rank) {
    const at::Tensor given = at::from_blob(comm.slot(rank), {at + count}, at::TensorOptions().dtype(dtype_of(type))).narrow(0, at, count);
    return given.element_size() == 2 ? given.to(at::kFloat) : given;
  };
  at::Tensor result = input(0).clone();
  for (int rank = 1; rank < comm.ranks; ++rank) result = combined(result, input(rank), op);
  return (op == 4 ? result.div(comm.ranks) : result).to(dtype_of(type));
}

// A call: `give` writes this rank's input into its slot, `take` reads what all have given.
int put(ncclComm* comm, void* stream, std::function<void()> give, std::function<void()> take) {
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
  return success;
}

int put_moving(ncclComm* comm, void* stream, const void* input, size_t bytes, std::function<void()> take) {
  if (bytes > slot_bytes) return invalid_argument;
  return put(comm, stream, [=] { std::memcpy(comm->slot(comm->rank), accelerator::opened(const_cast<void*>(input)), bytes); }, std::move(take));
}

size_t size_of(int type) { return at::elementSize(dtype_of(type)); }

// Messages of a group, which are one call of all ranks.
struct Message {
  const void* from = nullptr;
  void* to = nullptr;
  size_t bytes = 0;
  int peer = 0;
};
std::vector<Message> messages;
ncclComm* comm_of_messages = nullptr;
void* stream_of_messages = nullptr;

}  // namespace

int tw::testing::accelerator::nccl_aborts() { return aborted; }

extern "C" {

int ncclGetVersion(int* version) {
  *version = accelerator::nccl_is_offered() ? 23000 : 0;
  return success;
}

int ncclGetUniqueId(UniqueId* id) {
  static int made = 0;
  *id = {};
  const std::string name = "/tw_nccl_double_" + std::to_string(getpid()) + "_" + std::to_string(made++);
  std::memcpy(id->bytes, name.c_str(), name.size());
  return success;
}

int ncclCommInitRankConfig(ncclComm** result, int ranks, UniqueId id, int rank, void* config) {
  if (ranks > most_ranks || config == nullptr) return invalid_argument;
  auto comm = std::make_unique<ncclComm>();
  comm->rank = rank;
  comm->ranks = ranks;
  comm->name = id.bytes;
  const int file = shm_open(id.bytes, O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(ncclComm::bytes(ranks))) != 0) return invalid_argument;
  void* memory = mmap(nullptr, ncclComm::bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (memory == MAP_FAILED) return invalid_argument;
  comm->shared = static_cast<Shared*>(memory);
  comm->slots = static_cast<std::byte*>(memory) + sizeof(Shared);
  if (++comm->shared->joined == ranks) shm_unlink(id.bytes);
  *result = comm.release();
  return in_progress;
}

int ncclCommGetAsyncError(ncclComm* comm, int* state) {
  *state = comm->shared->joined == comm->ranks ? success : in_progress;
  return success;
}

// Leaves the memory to the process's end: work that was given up may still be looked at.
int ncclCommAbort(ncclComm* comm) {
  *comm->given_up = true;
  ++aborted;
  return success;
}

const char* ncclGetErrorString(int) { return "an error of the double"; }
const char* ncclGetLastError(ncclComm*) { return "none"; }

int ncclAllReduce(const void* input, void* output, size_t count, int type, int op, ncclComm* comm, void* stream) {
  const auto n = static_cast<int64_t>(count);
  return put_moving(comm, stream, input, count * size_of(type), [=] { seen(output, n, type).copy_(reduced(*comm, 0, n, type, op)); });
}

int ncclReduce(const void* input, void* output, size_t count, int type, int op, int root, ncclComm* comm, void* stream) {
  const auto n = static_cast<int64_t>(count);
  return put_moving(comm, stream, input, count * size_of(type), [=] {
    if (comm->rank == root) seen(output, n, type).copy_(reduced(*comm, 0, n, type, op));
  });
}

int ncclReduceScatter(const void* input, void* output, size_t each, int type, int op, ncclComm* comm, void* stream) {
  const auto n = static_cast<int64_t>(each);
  return put_moving(comm, stream, input, each * size_of(type) * static_cast<size_t>(comm->ranks),
                    [=] { seen(output, n, type).copy_(reduced(*comm, n * comm->rank, n, type, op)); });
}

int ncclAllGather(const void* input, void* output, size_t each, int type, ncclComm* comm, void* stream) {
  const size_t bytes = each * size_of(type);
  return put_moving(comm, stream, input, bytes, [=] {
    auto* to = static_cast<std::byte*>(accelerator::opened(output));
    for (int rank = 0; rank < comm->ranks; ++rank) std::memcpy(to + static_cast<size_t>(rank) * bytes, comm->slot(rank), bytes);
  });
}

int ncclBroadcast(const void* input, void* output, size_t count, int type, int root, ncclComm* comm, void* stream) {
  const size_t bytes = comm->rank == root ? count * size_of(type) : 0;
  return put_moving(comm, stream, input, bytes, [=] { std::memcpy(accelerator::opened(output), comm->slot(root), count * size_of(type)); });
}

int ncclGroupStart() {
  messages.clear();
  return success;
}

int ncclSend(const void* memory, size_t count, int type, int peer, ncclComm* comm, void* stream) {
  messages.push_back({.from = memory, .bytes = count * size_of(type), .peer = peer});
  comm_of_messages = comm;
  stream_of_messages = stream;
  return success;
}

int ncclRecv(void* memory, size_t count, int type, int peer, ncclComm* comm, void* stream) {
  messages.push_back({.to = memory, .bytes = count * size_of(type), .peer = peer});
  comm_of_messages = comm;
  stream_of_messages = stream;
  return success;
}

// Each rank's slot holds a part for each other, of equal size.
int ncclGroupEnd() {
  ncclComm* const comm = comm_of_messages;
  const auto part = [](ncclComm* of, int from, int to, size_t bytes) { return of->slot(from) + static_cast<size_t>(to) * bytes; };
  const auto give = [=, all = messages] {
    for (const Message& m : all) {
      if (m.from != nullptr) std::memcpy(part(comm, comm->rank, m.peer, m.bytes), accelerator::opened(const_cast<void*>(m.from)), m.bytes);
    }
  };
  const auto take = [=, all = messages] {
    for (const Message& m : all) {
      if (m.to != nullptr) std::memcpy(accelerator::opened(m.to), part(comm, m.peer, comm->rank, m.bytes), m.bytes);
    }
  };
  return put(comm, stream_of_messages, give, take);
}

}  // extern "C"
