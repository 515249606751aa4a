// SPDX-License-Identifier: Apache-2.0
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <span>
#include <tw/base/contract.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/topology.hpp>

#include "backends.hpp"
#include "device_memory.hpp"
#include "nccl_library.hpp"
#include "pci_bus.hpp"

namespace tw {
namespace {

using nccl::Library;
using nccl::Result;

/// An NCCL type, and the number of its elements in one of ours.
struct Elements {
  nccl::Type type;
  int64_t each = 1;
};

// Types that NCCL can reduce.
std::optional<Elements> elements_of(ElementType type) {
  switch (type) {
    case ElementType::int8: return Elements{nccl::Type::int8};
    case ElementType::uint8: return Elements{nccl::Type::uint8};
    case ElementType::int32: return Elements{nccl::Type::int32};
    case ElementType::int64: return Elements{nccl::Type::int64};
    case ElementType::float16: return Elements{nccl::Type::float16};
    case ElementType::bfloat16: return Elements{nccl::Type::bfloat16};
    case ElementType::float32: return Elements{nccl::Type::float32};
    case ElementType::float64: return Elements{nccl::Type::float64};
    case ElementType::complex64: return Elements{nccl::Type::float32, 2};
    case ElementType::complex128: return Elements{nccl::Type::float64, 2};
    default: return {};
  }
}

std::optional<nccl::Op> op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return nccl::Op::sum;
    case ReduceOp::average: return nccl::Op::average;
    case ReduceOp::min: return nccl::Op::min;
    case ReduceOp::max: return nccl::Op::max;
    case ReduceOp::product: return nccl::Op::product;
    default: return {};
  }
}

/// What each rank reports to the others before they connect.
struct Card {
  int64_t version = 0;  // NCCL's version; 0: none found
  int64_t node = 0;
  uint64_t device = 0;  // distinguishes the devices of a node
  bool may_share = false;
  nccl::Id id{};
};

bool is_same_device(const Card& a, const Card& b) { return a.node == b.node && a.device == b.device; }

bool some_share(const std::vector<Card>& cards) {
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    for (size_t other = 0; other < rank; ++other) {
      if (is_same_device(cards[rank], cards[other])) return true;
    }
  }
  return false;
}

// Why these ranks cannot use NCCL together; empty if they can.
std::string why_not_together(const std::vector<Card>& cards) {
  constexpr int64_t shares_devices = 23000;
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    const Card& card = cards[rank];
    if (card.version == 0) return concat("rank ", rank, " found no NCCL 2.17 or newer");
    if (card.version != cards[0].version) return concat("rank ", rank, " has NCCL ", card.version, " where rank 0 has ", cards[0].version);
    for (size_t other = 0; other < rank; ++other) {
      if (is_same_device(cards[other], card) && (card.version < shares_devices || !card.may_share)) {
        return concat("ranks ", other, " and ", rank, " share a device, which NCCL allows from version 2.30 with NCCL_MULTI_RANK_GPU_ENABLE=1");
      }
    }
  }
  return "";
}

/// A non-blocking NCCL communicator.
class Connection {
 public:
  Connection(const Library& library, c10::Device device) : library_(library), device_(device) {}
  /// Not ncclCommDestroy(), which needs all ranks: nothing is in flight, or its result is no longer wanted.
  ~Connection() { abort(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Starts to connect; needs all ranks. Then poll ended().
  void begin(int ranks, int rank, const nccl::Id& id) {
    const c10::DeviceGuard on(device_);
    nccl::Config config;
    check(library_.comm_init_rank_config(&comm_, ranks, id, rank, &config));
  }

  /// A place in the order of calls. NCCL accepts the next call once the host's part of the previous one is over.
  uint64_t take_ticket() { return tickets_++; }
  bool is_turn_of(uint64_t ticket) const { return over_ == ticket; }
  void end_turn() { ++over_; }

  /// Calls `f(comm)`, which enqueues work on a stream. Then poll ended().
  template <class Call>
  void call(const Call& f) {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) throw Error("NCCL: the operations in flight were aborted");
    const c10::DeviceGuard on(device_);
    check(f(comm_));
  }

  /// Whether the host's part of the last call is over.
  bool ended() {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) throw Error("NCCL: the operations in flight were aborted");
    Result state = Result::success;
    check(library_.comm_get_async_error(comm_, &state));
    check(state);
    return state == Result::success;
  }

  /// Ends all work on streams, whatever the other ranks do.
  void abort() {
    const std::lock_guard lock(mutex_);
    if (comm_ == nullptr) return;
    const c10::DeviceGuard on(device_);
    library_.comm_abort(std::exchange(comm_, nullptr));
  }

 private:
  void check(Result result) const {
    if (result == Result::success || result == Result::in_progress) return;
    throw Error(concat("NCCL: ", library_.get_error_string(result), ": ", library_.get_last_error(comm_)));
  }

  const Library& library_;
  const c10::Device device_;
  std::atomic<uint64_t> tickets_ = 0;
  std::atomic<uint64_t> over_ = 0;
  std::mutex mutex_;
  nccl::Comm* comm_ = nullptr;
};

/// Waits for a call made on a connection.
class Ended : public mpi::Transfer {
 public:
  explicit Ended(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  bool advance() override { return connection_->ended(); }

 private:
  const std::shared_ptr<Connection> connection_;
};

/// A collective that `put` enqueues on a stream.
class NcclTransfer : public mpi::Transfer {
 public:
  using Put = std::function<Result(nccl::Comm*)>;
  NcclTransfer(std::shared_ptr<Connection> connection, Put put)
      : connection_(std::move(connection)), put_(std::move(put)), ticket_(connection_->take_ticket()) {}

  bool advance() override {
    if (!connection_->is_turn_of(ticket_)) return false;
    try {
      if (put_) connection_->call(std::exchange(put_, {}));
      if (!connection_->ended()) return false;
    } catch (...) {
      connection_->end_turn();
      throw;
    }
    connection_->end_turn();
    return true;
  }

 private:
  const std::shared_ptr<Connection> connection_;
  Put put_;
  const uint64_t ticket_;
};

class NcclBackend : public Backend {
 public:
  explicit NcclBackend(const std::string& kind) : library_(Library::find(kind)) {}

  std::string_view name() const noexcept override { return "nccl"; }
  Passage passage() const noexcept override { return Passage::in_stream; }

  void prepare(const Communicator& comm, c10::Device device) override {
    if (device_ == device || comm.size() == 1) return;
    TW_EXPECTS(!device_, "NCCL uses one device per communicator: '", comm.name(), "' started on ", device_->str(), ", but this tensor is on ",
               device.str());
    device_ = device;
    Card mine{.node = find_topology(comm).node_index, .device = identity_of(device)};
    const char* may_share = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    mine.may_share = may_share != nullptr && may_share == std::string_view("1");
    if (int version = 0; library_ != nullptr && library_->get_version(&version) == Result::success) mine.version = version;
    if (mine.version != 0 && comm.rank() == 0 && library_->get_unique_id(&mine.id) != Result::success) mine.version = 0;
    std::vector<Card> cards(static_cast<size_t>(comm.size()));
    mpi::allgather(comm, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(cards)));
    why_not_ = why_not_together(cards);
    if (!why_not_.empty()) return;
    shares_device_ = some_share(cards);
    connection_ = std::make_shared<Connection>(*library_, device);
    connection_->begin(comm.size(), comm.rank(), cards[0].id);
    mpi::start(comm, {.collective = Collective::make_communicator}, std::make_unique<Ended>(connection_)).wait();
  }

  std::string why_not(const Call& call) const override {
    if (library_ == nullptr) return "this process found no NCCL 2.17 or newer for these devices";
    if (!connection_) return why_not_.empty() ? "a single rank needs no communication" : why_not_;
    if (call.collective == Collective::barrier) return "a barrier runs on the host";
    if (!is_reduction(call.collective)) return "";
    if (!op_of(call.op)) return concat("NCCL does not support the reduction ", name_of(call.op));
    if (!elements_of(call.type)) return concat("NCCL does not reduce ", name_of(call.type));
    const bool has_nan = call.type >= ElementType::float16;
    if (has_nan && (call.op == ReduceOp::min || call.op == ReduceOp::max)) return concat("NCCL drops NaN from ", name_of(call.op));
    const bool is_complex = elements_of(call.type)->each == 2;
    return is_complex && call.op == ReduceOp::product ? "NCCL has no complex numbers: it can only add their real and imaginary parts" : "";
  }

  // If ranks share a device, kernels of several processes wait for each other in turns: 36 ms per MiB (two ranks on an H100, NCCL 2.31).
  bool pays(const Call&) const override { return !shares_device_; }

  std::unique_ptr<mpi::Transfer> begin(const Communicator& comm, const BoundCall& bound) override {
    return std::make_unique<NcclTransfer>(connection_, [library = library_, ranks = comm.size(), bound](nccl::Comm* of) {
      return is_reduction(bound.call.collective) ? reduce(*library, ranks, of, bound) : move(*library, ranks, of, bound);
    });
  }

  void give_up() override {
    if (connection_) connection_->abort();
  }

 private:
  static Result reduce(const Library& library, int ranks, nccl::Comm* of, const BoundCall& bound) {
    const Call& call = bound.call;
    const auto [type, each] = *elements_of(call.type);
    const auto count = static_cast<size_t>(call.count * each);
    const nccl::Op op = *op_of(call.op);
    switch (call.collective) {
      case Collective::allreduce: return library.all_reduce(bound.input, bound.output, count, type, op, of, native_handle(*bound.stream));
      case Collective::reduce: return library.reduce(bound.input, bound.output, count, type, op, call.peer, of, native_handle(*bound.stream));
      default:
        return library.reduce_scatter(bound.input, bound.output, count / static_cast<size_t>(ranks), type, op, of, native_handle(*bound.stream));
    }
  }

  static Result move(const Library& library, int ranks, nccl::Comm* of, const BoundCall& bound) {
    const Call& call = bound.call;
    const auto bytes = static_cast<size_t>(call.count * element_bytes(call.type));
    switch (call.collective) {
      case Collective::broadcast:
        return library.broadcast(bound.input, bound.output, bytes, nccl::Type::uint8, call.peer, of, native_handle(*bound.stream));
      case Collective::allgather: return library.all_gather(bound.input, bound.output, bytes, nccl::Type::uint8, of, native_handle(*bound.stream));
      default: return exchange(library, ranks, of, bound, bytes / static_cast<size_t>(ranks));
    }
  }

  static Result exchange(const Library& library, int ranks, nccl::Comm* of, const BoundCall& bound, size_t each) {
    Result worst = library.group_start();
    const auto note = [&](Result result) { worst = result == Result::success || result == Result::in_progress ? worst : result; };
    for (int rank = 0; rank < ranks; ++rank) {
      note(library.send(bound.input + static_cast<size_t>(rank) * each, each, nccl::Type::uint8, rank, of, native_handle(*bound.stream)));
      note(library.receive(bound.output + static_cast<size_t>(rank) * each, each, nccl::Type::uint8, rank, of, native_handle(*bound.stream)));
    }
    note(library.group_end());
    return worst;
  }

  const Library* library_;
  std::optional<c10::Device> device_;
  std::string why_not_;
  bool shares_device_ = false;
  std::shared_ptr<Connection> connection_;
};

}  // namespace

std::unique_ptr<Backend> make_nccl_backend(const std::string& kind) { return std::make_unique<NcclBackend>(kind); }

}  // namespace tw
