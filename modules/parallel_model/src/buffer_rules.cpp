// SPDX-License-Identifier: Apache-2.0
#include "buffer_rules.hpp"

#include <ATen/core/grad_mode.h>

#include <tw/comm/collectives.hpp>
#include <tw/tensor/known_memory.hpp>

namespace tw {

BufferRules::BufferRules(const std::vector<NamedTensor>& buffers) {
  for (const NamedTensor& each : buffers) buffers_.push_back(each.tensor);
  before_.resize(buffers_.size());
  remember();
}

void BufferRules::remember() {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const at::Tensor now = buffers_[i].detach();
    const bool fits = before_[i].defined() && before_[i].sizes() == now.sizes() && before_[i].options().type_equal(now.options());
    fits ? before_[i].copy_(now) : before_[i] = now.clone();
  }
}

void BufferRules::restore() const {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(before_[i]);
}

std::vector<double> BufferRules::changed() const {
  std::vector<double> changed;
  for (size_t i = 0; i < buffers_.size(); ++i) changed.push_back(buffers_[i].equal(before_[i]) ? 0 : 1);
  return changed;
}

void BufferRules::account(KnownMemory& known) const {
  for (const std::vector<at::Tensor>& tensors : {buffers_, before_}) {
    for (const at::Tensor& each : tensors) known.add(MemoryUse::buffers, each);
  }
}

void BufferRules::apply(const Communicator& comm, const std::vector<double>& changed, double share) const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> means;
  std::vector<at::Tensor> maxima;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (changed[i] == 0) continue;
    const at::Tensor buffer = buffers_[i].detach();
    if (buffer.is_floating_point() || buffer.is_complex()) {
      if (share == 0) buffer.zero_();
      means.push_back(buffer.mul_(share));
    } else {
      maxima.push_back(buffer.scalar_type() == at::kBool ? buffer.view(at::kByte) : buffer);
    }
  }
  if (!means.empty()) allreduce(comm, means, ReduceOp::sum);
  if (!maxima.empty()) allreduce(comm, maxima, ReduceOp::max);
}

}  // namespace tw
