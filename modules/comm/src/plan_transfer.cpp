// SPDX-License-Identifier: Apache-2.0
#include "plan_transfer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <tw/mpi/library.hpp>
#include <tw/shared_memory/reduce.hpp>

namespace tw {
namespace {

using algorithms::Area;
using algorithms::LocalOperation;
using algorithms::Message;
using algorithms::Plan;
using algorithms::Run;
using algorithms::Step;

class PlanTransfer : public mpi::Transfer {
 public:
  PlanTransfer(const Communicator& comm, std::shared_ptr<const Plan> plan, PlanMemory memory, std::vector<int> ranks, int64_t sequence)
      : comm_(mpi::borrow(comm)),
        plan_(std::move(plan)),
        memory_(std::move(memory)),
        ranks_(std::move(ranks)),
        sequence_(sequence),
        element_bytes_(tw::element_bytes(memory_.type)) {
    for (const BlockRange& block : memory_.layout) slot_elements_ = std::max(slot_elements_, block.count);
    const int64_t bytes = plan_->scratch_slots * slot_elements_ * element_bytes_;
    if (bytes > 0) scratch_.reset(new std::byte[static_cast<size_t>(bytes)]);
  }

  bool advance() override {
    for (; step_ < plan_->steps.size(); ++step_) {
      const Step& step = plan_->steps[step_];
      if (!messages_ && !(step.sends.empty() && step.receives.empty())) begin_messages(step);
      if (messages_ && !messages_->advance()) return false;
      messages_.reset();
      for (const LocalOperation& operation : step.local_operations) execute(operation);
    }
    return true;
  }

 private:
  void begin_messages(const Step& step) {
    const auto located = [this](const std::vector<Message>& messages, std::byte& token) {  // an empty message still needs a byte
      std::vector<mpi::PeerMemory> all;
      for (const Message& message : messages) {
        const Rank peer(ranks_[static_cast<size_t>(message.peer)]);
        all.push_back({peer, message.run.count == 0 ? std::span(&token, 1) : memory_of(message.run)});
      }
      return all;
    };
    messages_ = mpi::messages_transfer(comm_, located(step.sends, tokens_[0]), located(step.receives, tokens_[1]), sequence_);
  }

  int64_t elements_in(const Run& run) const {
    int64_t count = 0;
    for (int64_t block = run.block; block < run.block + run.count; ++block) count += memory_.layout[static_cast<size_t>(block)].count;
    return count;
  }

  int64_t begin_of(const Run& run) const {
    if (run.area == Area::scratch) return run.slot * slot_elements_;
    const bool is_one_block = run.area == Area::input ? memory_.input_is_one_block : memory_.output_is_one_block;
    return is_one_block ? 0 : memory_.layout[static_cast<size_t>(run.block)].begin;
  }

  std::span<std::byte> memory_of(const Run& run) {
    std::byte* base = run.area == Area::scratch ? scratch_.get() : run.area == Area::output ? memory_.output : const_cast<std::byte*>(memory_.input);
    return {base + begin_of(run) * element_bytes_, static_cast<size_t>(elements_in(run) * element_bytes_)};
  }

  void execute(const LocalOperation& operation) {
    const std::span<std::byte> a = memory_of(operation.a);
    const std::span<std::byte> to = memory_of(operation.to);
    if (a.empty()) return;
    if (operation.kind == LocalOperation::Kind::copy) {
      if (a.data() != to.data()) std::memcpy(to.data(), a.data(), a.size());
      return;
    }
    const std::array<const std::byte*, 2> inputs{a.data(), memory_of(operation.b).data()};
    shared_memory::reduce(memory_.op, memory_.type, inputs, std::array{to.data()}, static_cast<int64_t>(a.size()) / element_bytes_);
  }

  const Communicator comm_;
  const std::shared_ptr<const Plan> plan_;
  const PlanMemory memory_;
  const std::vector<int> ranks_;
  const int64_t sequence_;
  const int64_t element_bytes_;
  int64_t slot_elements_ = 0;
  std::unique_ptr<std::byte[]> scratch_;
  std::array<std::byte, 2> tokens_{};
  size_t step_ = 0;
  std::unique_ptr<mpi::Transfer> messages_;
};

}  // namespace

BlockLayout even_layout(int64_t count, int64_t blocks) {
  BlockLayout layout;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * count / blocks;
    layout.push_back({begin, (block + 1) * count / blocks - begin});
  }
  return layout;
}

std::unique_ptr<mpi::Transfer> make_plan_transfer(const Communicator& comm, std::shared_ptr<const Plan> plan, PlanMemory memory,
                                                  std::vector<int> ranks, int64_t sequence) {
  return std::make_unique<PlanTransfer>(comm, std::move(plan), std::move(memory), std::move(ranks), sequence);
}

}  // namespace tw
