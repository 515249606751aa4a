// SPDX-License-Identifier: Apache-2.0
// Collectives among the ranks of one node, through device memory that all of them have mapped. A tensor is sent in chunks, alternating between two
// slots per rank. For each chunk:
//
//   show    waits in the stream until all ranks have read the slot's previous content, copies this rank's input there, and marks it as shown;
//   reduce  (a large all-reduce of more than two ranks) waits until all have shown, reduces this rank's part of the chunk, and marks it as reduced;
//   take    waits until all have shown, or reduced, reads this rank's result from all slots, and marks them as taken.
//
// A mark is an event, and a stream waits for its latest recording. So the hosts synchronise between the stages, without waiting for a device. This
// differs where ranks share a device: a stream that waits for another process keeps the device for a whole time slice (2 ms on an H100, measured).
// There each host waits until its own part is done before the hosts meet, and the streams wait for nothing.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/logical_xor.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <span>
#include <tw/base/contract.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/shared_memory/meeting.hpp>
#include <tw/tensor/tensor_spec.hpp>

#include "backends.hpp"
#include "device_memory.hpp"
#include "devices_here.hpp"
#include "ipc_slots.hpp"
#include "pci_bus.hpp"

namespace tw {
namespace {

using ipc::Slots;
using Mark = Slots::Mark;

void combine(ReduceOp op, at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average: at::add_out(out, a, b); break;
    case ReduceOp::product: at::mul_out(out, a, b); break;
    case ReduceOp::min: at::minimum_out(out, a, b); break;
    case ReduceOp::max: at::maximum_out(out, a, b); break;
    case ReduceOp::logical_and: at::logical_and_out(out, a, b); break;
    case ReduceOp::logical_or: at::logical_or_out(out, a, b); break;
    case ReduceOp::logical_xor: at::logical_xor_out(out, a, b); break;
    case ReduceOp::bitwise_and: at::bitwise_and_out(out, a, b); break;
    case ReduceOp::bitwise_or: at::bitwise_or_out(out, a, b); break;
    case ReduceOp::bitwise_xor: at::bitwise_xor_out(out, a, b); break;
  }
}

// In rank order; 16-bit floats as float32, rounded once. `out` must not be one of `of_ranks`.
void reduce_into(const at::Tensor& out, ReduceOp op, std::vector<at::Tensor> of_ranks) {
  const bool is_half = out.scalar_type() == at::kHalf || out.scalar_type() == at::kBFloat16;
  for (at::Tensor& tensor : of_ranks) tensor = is_half ? tensor.to(at::kFloat) : tensor;
  at::Tensor result = is_half ? of_ranks[0] : out;
  combine(op, result, of_ranks[0], of_ranks[1]);
  for (size_t rank = 2; rank < of_ranks.size(); ++rank) combine(op, result, result, of_ranks[rank]);
  if (op == ReduceOp::average) result.div_(static_cast<double>(of_ranks.size()));
  if (is_half) out.copy_(result);
}

class IpcTransfer : public mpi::Transfer {
 public:
  IpcTransfer(std::shared_ptr<shared_memory::Channel> channel, std::shared_ptr<Slots> slots, bool hosts_wait, const BoundCall& bound,
              int64_t flat_bytes)
      : rank_(channel->rank()),
        ranks_(channel->ranks()),
        meeting_(std::move(channel), bound.call),
        slots_(std::move(slots)),
        hosts_wait_(hosts_wait),
        bound_(bound),
        dtype_(dtype_of(bound.call.type)),
        stream_(native_handle(*bound.stream)),
        has_parts_(bound.call.collective == Collective::reduce_scatter || bound.call.collective == Collective::alltoall),
        is_divided_(bound.call.collective == Collective::allreduce && bound.call.count * element_bytes(bound.call.type) > flat_bytes),
        total_(has_parts_ ? bound.call.count / ranks_ : bound.call.count),
        longest_(slots_->bytes() / element_bytes(bound.call.type) / (has_parts_ ? ranks_ : 1)) {}

  // If the transfer is dropped unfinished, after a revocation or an error, the slots cannot be reused.
  ~IpcTransfer() override {
    if (stage_ != Stage::taken) slots_->give_up();
  }
  IpcTransfer(const IpcTransfer&) = delete;
  IpcTransfer& operator=(const IpcTransfer&) = delete;

  bool advance() override {
    if (!meeting_.is_its_turn()) return false;
    const at::NoGradGuard no_grad;
    const c10::StreamGuard in(*bound_.stream);
    while (stage_ != Stage::taken) {
      if (stage_ == Stage::begin) show();
      if (stage_ == Stage::shown) {
        if (!has_met()) return false;
        if (is_divided_) reduce_part();
      }
      if (stage_ == Stage::reduced && !has_met()) return false;
      take();
    }
    if (hosts_wait_ && !done_.query()) return false;
    meeting_.end();
    return true;
  }

 private:
  enum class Stage : uint8_t { begin, shown, reduced, taken };

  // If calls differ, no rank reads anything.
  bool has_met() {
    if (hosts_wait_ && !done_.query()) return false;
    try {
      return meeting_.has_met();
    } catch (...) {
      if (!hosts_wait_) slots_->set(Mark::taken, slot_, stream_);
      throw;
    }
  }

  // The mark that the other ranks wait for.
  void mark(Mark which) {
    if (hosts_wait_) {
      done_.record(*bound_.stream);
    } else {
      slots_->set(which, slot_, stream_);
    }
  }
  // Call it after has_met().
  void wait_for(Mark which) {
    if (!hosts_wait_) slots_->wait_for_all(which, slot_, stream_);
  }

  void show() {
    slot_ = slots_->current();
    count_ = std::min(longest_, total_ - begin_);
    slots_->wait_for_all(Mark::taken, slot_, stream_);
    if (has_parts_) {
      in_slot(rank_, 0, ranks_ * count_)
          .view({ranks_, count_})
          .copy_(of_input(0, bound_.call.count).view({ranks_, total_}).narrow(1, begin_, count_));
    } else if (bound_.call.collective != Collective::broadcast || is_root()) {
      in_slot(rank_, 0, count_).copy_(of_input(begin_, count_));
    }
    mark(Mark::shown);
    stage_ = Stage::shown;
  }

  void reduce_part() {
    wait_for(Mark::shown);
    const auto [begin, count] = part_of(rank_);
    const at::Tensor result = of_output(begin_ + begin, count);
    reduce_into(result, bound_.call.op, in_all_slots(begin, count));
    in_slot(rank_, begin, count).copy_(result);
    mark(Mark::reduced);
    stage_ = Stage::reduced;
  }

  void take() {
    wait_for(is_divided_ ? Mark::reduced : Mark::shown);
    switch (bound_.call.collective) {
      case Collective::allreduce:
        if (is_divided_) {
          take_parts();
          break;
        }
        [[fallthrough]];
      case Collective::reduce:
        if (bound_.call.collective == Collective::allreduce || is_root()) {
          reduce_into(of_output(begin_, count_), bound_.call.op, in_all_slots(0, count_));
        }
        break;
      case Collective::reduce_scatter: reduce_into(of_output(begin_, count_), bound_.call.op, in_all_slots(rank_ * count_, count_)); break;
      case Collective::broadcast:
        if (!is_root()) of_output(begin_, count_).copy_(in_slot(bound_.call.peer, 0, count_));
        break;
      default:
        for (int rank = 0; rank < ranks_; ++rank) {
          of_output(rank * total_ + begin_, count_).copy_(in_slot(rank, has_parts_ ? rank_ * count_ : 0, count_));
        }
    }
    slots_->set(Mark::taken, slot_, stream_);
    slots_->next();
    begin_ += count_;
    stage_ = begin_ < total_ ? Stage::begin : Stage::taken;
    if (hosts_wait_ && stage_ == Stage::taken) done_.record(*bound_.stream);
  }

  void take_parts() {
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto [begin, count] = part_of(rank);
      if (rank != rank_) of_output(begin_ + begin, count).copy_(in_slot(rank, begin, count));
    }
  }

  bool is_root() const { return bound_.call.peer == rank_; }

  struct Part {
    int64_t begin;
    int64_t count;
  };
  // The part of a chunk that `rank` reduces.
  Part part_of(int rank) const {
    const int64_t begin = count_ * rank / ranks_;
    return {begin, count_ * (rank + 1) / ranks_ - begin};
  }

  at::Tensor elements(const std::byte* memory, int64_t begin, int64_t count) const {
    return elements_at(memory + begin * element_bytes(bound_.call.type), count, dtype_, bound_.stream->device());
  }
  at::Tensor of_input(int64_t begin, int64_t count) const { return elements(bound_.input, begin, count); }
  at::Tensor of_output(int64_t begin, int64_t count) const { return elements(bound_.output, begin, count); }
  at::Tensor in_slot(int rank, int64_t begin, int64_t count) const { return elements(slots_->memory(rank, slot_), begin, count); }
  std::vector<at::Tensor> in_all_slots(int64_t begin, int64_t count) const {
    std::vector<at::Tensor> all;
    for (int rank = 0; rank < ranks_; ++rank) all.push_back(in_slot(rank, begin, count));
    return all;
  }

  const int rank_;
  const int ranks_;
  shared_memory::Meeting meeting_;
  const std::shared_ptr<Slots> slots_;
  const bool hosts_wait_;
  const BoundCall bound_;
  const c10::ScalarType dtype_;
  void* const stream_;
  const bool has_parts_;   // whether the input has one part for each rank
  const bool is_divided_;  // whether ranks divide the reduction among themselves
  const int64_t total_;    // elements; of one part, if has_parts_
  const int64_t longest_;  // elements of the largest chunk
  int64_t begin_ = 0;      // offset of the chunk
  int64_t count_ = 0;
  size_t slot_ = 0;
  c10::Event done_{bound_.stream->device_type()};  // if the hosts wait: the end of this rank's part of the stage
  Stage stage_ = Stage::begin;
};

// Whether two ranks use the same device. Collective.
bool some_share(const Communicator& comm, c10::Device device) {
  const uint64_t mine = identity_of(device);
  std::vector<uint64_t> all(static_cast<size_t>(comm.size()));
  mpi::allgather(comm, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) != all.end();
}

class IpcBackend : public Backend {
 public:
  explicit IpcBackend(IpcOptions options) : options_(std::move(options)) {}

  std::string_view name() const noexcept override { return "ipc"; }
  Passage passage() const noexcept override { return Passage::in_stream; }

  void prepare(const Communicator& comm, c10::Device device) override {
    if (device_ == device || comm.size() == 1) return;
    TW_EXPECTS(!device_, "a communicator shares the memory of one device per rank: '", comm.name(), "' started on ", device_->str(),
               ", but this tensor is on ", device.str());
    device_ = device;
    channel_ = options_.channel(comm);
    if (!channel_) {
      why_not_ = "the ranks are on several nodes";
      return;
    }
    shares_device_ = some_share(comm, device);
    slots_ = Slots::connect(comm, ipc::Library::find(kind_of(device.type())), device, options_.slot_bytes, why_not_);
  }

  std::string why_not(const Call& call) const override {
    if (!slots_) return why_not_.empty() ? "a single rank needs no communication" : why_not_;
    return call.collective == Collective::barrier ? "a barrier runs on the host" : "";
  }

  // Processes that share a device take turns on it, at 0.6 ms a call of any size. Copies through the host take 0.25 ms per MiB (all-reduces of two
  // ranks on an H100).
  bool pays(const Call& call) const override {
    constexpr int64_t least_of_shared = int64_t{2} << 20;
    return !shares_device_ || call.count * element_bytes(call.type) >= least_of_shared;
  }

  std::unique_ptr<mpi::Transfer> begin(const Communicator&, const BoundCall& bound) override {
    return std::make_unique<IpcTransfer>(channel_, slots_, shares_device_, bound, options_.flat_bytes);
  }

  void give_up() override {
    if (slots_) slots_->give_up();
  }

 private:
  const IpcOptions options_;
  std::optional<c10::Device> device_;
  std::string why_not_;
  bool shares_device_ = false;
  std::shared_ptr<shared_memory::Channel> channel_;
  std::shared_ptr<Slots> slots_;
};

}  // namespace

std::unique_ptr<Backend> make_ipc_backend(IpcOptions options) { return std::make_unique<IpcBackend>(std::move(options)); }

}  // namespace tw
