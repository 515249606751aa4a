// SPDX-License-Identifier: Apache-2.0
#include <tw/shared_memory/channel.hpp>

#include <cstring>
#include <tw/base/contract.hpp>
#include <tw/shared_memory/reduce.hpp>

namespace tw::shared_memory {
namespace {

constexpr int64_t part_alignment = 128;  // bytes

bool reads_directly(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reduce_scatter || collective == Collective::allgather ||
         collective == Collective::broadcast;
}

}  // namespace

Exchange::Exchange(std::shared_ptr<Channel> channel, const Call& call, const std::byte* input, std::byte* output, int64_t flat_bytes,
                   const std::optional<CallPart>& part)
    : channel_(std::move(channel)),
      call_(call),
      moved_(part ? part->moved : call),
      refused_(part ? part->refused : nullptr),
      input_(input),
      output_(output),
      flat_bytes_(flat_bytes),
      ticket_(channel_->next_ticket_++) {
  const bool in_place = moved_.collective != Collective::allreduce || input_ == output_;
  if (reads_directly(moved_.collective) && in_place && moved_.count > 0) window_ = channel_->find(input_, moved_.count * element_bytes(moved_.type));
}

void Exchange::begin(Mode mode) {
  mode_ = mode;
  const int64_t bytes = element_bytes(moved_.type);
  plan_.emplace(
      moved_, mode, channel_->rank_, channel_->ranks_,
      PlanOptions{.slot_elements = channel_->slot_bytes_ / bytes, .flat_elements = flat_bytes_ / bytes, .alignment = part_alignment / bytes});
  round_ = 0;
  steps_ = &plan_->round(0);
  next_step_ = 0;
}

bool Exchange::advance() {
  if (channel_->serving_ != ticket_) return false;
  if (refused_ && *refused_) {
    ++channel_->serving_;
    return true;
  }
  if (!plan_) begin(window_.window >= 0 ? Mode::direct : Mode::staged);
  while (true) {
    while (next_step_ < steps_->size()) {
      if (!execute((*steps_)[next_step_])) return false;
    }
    if (++round_ == plan_->rounds()) break;
    steps_ = &plan_->round(round_);
    next_step_ = 0;
  }
  ++channel_->serving_;
  return true;
}

// Executes `step` and moves on to the next; false if it would block.
bool Exchange::execute(const Step& step) {
  switch (step.kind) {
    case Step::Kind::next_round:
      if (!channel_->next_round()) return false;
      break;
    case Step::Kind::arrive: return arrive();
    case Step::Kind::post: channel_->post(); break;
    case Step::Kind::wait:
      if (step.rank >= 0 ? !channel_->reached(step.rank, channel_->step_) : !channel_->all_reached(channel_->step_)) return false;
      break;
    case Step::Kind::copy: copy(step); break;
    case Step::Kind::reduce: reduce(step); break;
  }
  ++next_step_;
  return true;
}

bool Exchange::arrive() {
  if (!posted_) {
    channel_->post_call(call_, window_);
    posted_ = true;
  }
  if (!channel_->all_reached(channel_->step_)) return false;
  posted_ = false;
  ++next_step_;
  try {
    channel_->expect_same_calls();
  } catch (...) {
    if (refused_) *refused_ = true;
    ++channel_->serving_;
    throw;
  }
  bool any_direct = false;
  bool all_direct = true;
  places_.clear();
  for (int rank = 0; rank < channel_->ranks_; ++rank) {
    places_.push_back(channel_->header(rank).place);
    any_direct = any_direct || places_.back().window >= 0;
    all_direct = all_direct && places_.back().window == places_.front().window;  // this rank's tensor is in the same window, so it is still mapped
  }
  if (any_direct && !all_direct) {  // every rank sees this and restarts in staged mode, which suits all
    window_ = {};
    begin(Mode::staged);
  }
  return true;
}

const std::byte* Exchange::place(Area area, int rank) const {
  switch (area) {
    case Area::slot: return channel_->slot(rank);
    case Area::output: return output_;
    case Area::input: return rank == channel_->rank_ ? input_ : channel_->share(rank, places_[static_cast<size_t>(rank)]);
  }
  return nullptr;
}

void Exchange::copy(const Step& step) const {
  const int64_t bytes = element_bytes(moved_.type);
  const std::byte* from = place(step.from, step.rank) + step.from_begin * bytes;
  std::byte* to = (step.to == Area::slot ? channel_->slot(channel_->rank_) : output_) + step.to_begin * bytes;
  if (from != to) std::memcpy(to, from, static_cast<size_t>(step.count * bytes));
}

void Exchange::reduce(const Step& step) {
  const int64_t bytes = element_bytes(moved_.type);
  std::vector<const std::byte*>& inputs = channel_->inputs_;
  std::vector<std::byte*>& outputs = channel_->outputs_;
  inputs.clear();
  outputs.clear();
  for (int rank = 0; rank < channel_->ranks_; ++rank) {
    const bool mine = rank == channel_->rank_;
    inputs.push_back(mine ? input_ + step.own_begin * bytes : place(step.from, rank) + step.from_begin * bytes);
    // Every rank may write to a window's memory, not only its owner.
    if (step.spread == Step::Spread::everyone && !mine) outputs.push_back(const_cast<std::byte*>(inputs.back()));
  }
  if (step.spread != Step::Spread::slot) outputs.push_back(output_ + step.to_begin * bytes);
  if (step.spread == Step::Spread::output_and_slot || step.spread == Step::Spread::slot) {
    outputs.push_back(channel_->slot(channel_->rank_) + step.from_begin * bytes);
  }
  shared_memory::reduce(moved_.op, moved_.type, inputs, outputs, step.count);
}

}  // namespace tw::shared_memory
