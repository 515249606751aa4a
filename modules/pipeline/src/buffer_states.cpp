// SPDX-License-Identifier: Apache-2.0
#include "buffer_states.hpp"

#include <tw/tensor/on_cpu.hpp>
#include <utility>

namespace tw::pipeline {

BufferStates::BufferStates(std::vector<at::Tensor> buffers, bool only_this_pass) : buffers_(std::move(buffers)), only_this_pass_(only_this_pass) {}

void BufferStates::add() {
  std::vector<at::Tensor> now;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const bool is_first = moments_.empty();
    const bool is_same = !is_first && !is_on_accelerator(buffers_[i]) && moments_.back()[i].equal(buffers_[i].variable_data());
    now.push_back(is_same ? moments_.back()[i] : buffers_[i].variable_data().clone());
  }
  moments_.push_back(std::move(now));
}

void BufferStates::finish() {
  if (!only_this_pass_) return;
  add();
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (!moments_.front()[i].is_same(moments_.back()[i])) continue;
    for (std::vector<at::Tensor>& moment : moments_) moment[i] = at::Tensor();
  }
  moments_.pop_back();
}

void BufferStates::restore(size_t index) const {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (moments_[index][i].defined()) buffers_[i].variable_data().copy_(moments_[index][i]);
  }
}

}  // namespace tw::pipeline
