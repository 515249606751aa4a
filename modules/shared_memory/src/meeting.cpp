// SPDX-License-Identifier: Apache-2.0
#include <tw/shared_memory/meeting.hpp>

namespace tw::shared_memory {

Meeting::Meeting(std::shared_ptr<Channel> channel, const Call& call) : channel_(std::move(channel)), call_(call), ticket_(channel_->next_ticket_++) {}

bool Meeting::is_its_turn() const noexcept { return channel_->serving_ == ticket_; }

void Meeting::end() noexcept { ++channel_->serving_; }

bool Meeting::has_met() {
  if (!is_here_) {
    if (!channel_->next_round()) return false;
    channel_->post_call(call_, {});
    is_here_ = true;
  }
  if (!channel_->all_reached(channel_->step_)) return false;
  is_here_ = false;
  try {
    channel_->expect_same_calls();
  } catch (...) {
    end();
    throw;
  }
  return true;
}

}  // namespace tw::shared_memory
