// SPDX-License-Identifier: Apache-2.0
#include <c10/util/ScopeExit.h>

#include <tw/comm/agreement.hpp>
#include <tw/state/optimizer_memory.hpp>
#include <tw/tensor/memory_account.hpp>

#include "parallel_model_impl.hpp"

namespace tw {
namespace {

/// @param first of the first step, before the optimizer has its state; nothing if it was made
UpdateMemory with_optimizer(MemoryByUse kept, MemoryPeak peak, const MemoryPeak& first, const OptimizerMemory& optimizer) {
  kept[MemoryUse::optimizer] += optimizer.state_bytes;
  peak.held[MemoryUse::optimizer] += optimizer.state_bytes;
  MemoryPeak update{.held = kept, .during = "update", .step = peak.step};
  update.held[MemoryUse::activations] += optimizer.temporary_bytes;
  const bool is_first_larger = first.held.together() > peak.held.together();
  return {kept, is_first_larger ? first : peak, std::move(update)};
}

}  // namespace

/// Memory of a step without the optimizer's.
struct ParallelModel::Impl::StepMemory {
  MemoryByUse kept;
  MemoryPeak peak;
};

UpdateMemory ParallelModel::Impl::memory(const Tensors& inputs, const Tensors& targets, const Loss& loss, const torch::optim::Optimizer& optimizer) {
  begin();
  const auto [facts, update] = agree(BatchFacts::Call::memory, inputs, targets, loss);
  const OptimizerMemory of_optimizer =
      on_all_ranks(ranks_->comm(), "predicting the memory of the optimizer", [&] { return optimizer_memory(optimizer); });
  const auto count_step = [&, target_weight = facts.weight, &all = update] {
    return count_memory([&] { (void)make_step(inputs, targets, loss, target_weight, all); });
  };
  // The first step differs: layers in parallel are captured, and the order of units becomes known.
  MemoryPeak first = has_stepped_ ? MemoryPeak() : count_step().peak;
  if (!optimizer.state().empty()) first.held[MemoryUse::optimizer] += of_optimizer.state_bytes;
  const StepMemory later = count_step();
  return with_optimizer(later.kept, later.peak, first, of_optimizer);
}

ParallelModel::Impl::StepMemory ParallelModel::Impl::count_memory(const std::function<void()>& step) {
  drop_gradients();
  remember();
  const auto undo = c10::make_scope_exit([this] { undo_step(); });
  MemoryAccount account(kind_);
  account.begin();
  account.phase("train_step");
  calls_->together(step);
  KnownMemory known;
  sums_->account(known);
  buffers_.account(known);
  renormalised_.account(known);
  account.end(state_.updates(), known);
  return {known.bytes(), account.peak()};
}

}  // namespace tw
