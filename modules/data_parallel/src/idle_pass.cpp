// SPDX-License-Identifier: Apache-2.0
#include <tw/data_parallel/idle_pass.hpp>

namespace tw {
namespace {

thread_local IdlePass* innermost = nullptr;

}  // namespace

IdlePass::IdlePass(const std::vector<NamedTensor>& buffers) : outer_(std::exchange(innermost, this)) {
  for (const NamedTensor& each : buffers) buffers_.emplace_back(each.tensor, TensorSnapshot(std::vector<at::Tensor>{each.tensor}));
}

IdlePass::~IdlePass() {
  innermost = outer_;
  for (const auto& [buffer, copy] : buffers_) copy.restore();
}

bool IdlePass::in_progress() noexcept { return innermost != nullptr; }

void IdlePass::keep(const at::Tensor& buffer) {
  for (IdlePass* pass = innermost; pass != nullptr; pass = pass->outer_) {
    std::erase_if(pass->buffers_, [&](const auto& each) { return each.first.is_same(buffer); });
  }
}

}  // namespace tw
