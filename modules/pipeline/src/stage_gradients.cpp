// SPDX-License-Identifier: Apache-2.0
#include "stage_gradients.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/gradients/clipping.hpp>
#include <tw/gradients/part_gradients.hpp>
#include <tw/tensor/on_cpu.hpp>

#include "sparse_parameters.hpp"

namespace tw::pipeline {
namespace {

std::vector<NamedTensor> trained_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> parameters;
  for (const auto& p : module.named_parameters()) {
    if (p.value().requires_grad()) parameters.push_back({p.key(), p.value()});
  }
  return without_aliases(std::move(parameters));
}

/// Broadcasts from rank 0. Tensors without memory are skipped: they get equal values later.
void make_equal(const Communicator& comm, const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  if (comm.size() == 1) return;
  for (const at::Tensor& each : tensors) {
    if (!each.is_meta()) broadcast(comm, each.detach(), Rank(0));
  }
}

/// By tensor, 1 if it differs from before. The host waits once for all tensors on an accelerator.
at::Tensor changed_since(const std::vector<at::Tensor>& before, const std::vector<at::Tensor>& tensors) {
  const at::Tensor changed = at::zeros({static_cast<int64_t>(tensors.size())}, at::kLong);
  std::vector<int64_t> there;
  std::vector<at::Tensor> differ;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    if (is_on_accelerator(tensors[i])) {
      there.push_back(index);
      differ.push_back(tensors[i].ne(before[i]).any());
    } else {
      changed[index] = tensors[i].equal(before[i]) ? 0 : 1;
    }
  }
  if (there.empty()) return changed;
  const at::Tensor read = at::stack(differ).cpu();
  for (size_t k = 0; k < there.size(); ++k) changed[there[k]] = read[static_cast<int64_t>(k)];
  return changed;
}

/// Whether `gradient` holds values. If another object keeps gradients in slices, `.grad()` is a placeholder without memory.
bool is_own(const at::Tensor& gradient) {
  return gradient.defined() && (gradient.numel() == 0 || !gradient.has_storage() || gradient.storage().nbytes() > 0);
}

bool is_integral(const at::Tensor& tensor) { return !tensor.is_floating_point() && !tensor.is_complex(); }

}  // namespace

StageGradients::StageGradients(const Communicator& comm, const StageRanks& ranks, const StageModel& model)
    : comm_(comm),
      model_(model),
      ties_(agree_on_ties(comm, ranks, model)),
      replicas_(comm.split(ranks.device_of(comm.rank()), comm.rank())),
      trained_(trained_of(*model.module)),
      split_layers_(model_parts(*model.module)),
      sparse_(sparse_parameters_of(model)),
      buffers_(model.module->buffers()) {
  const int device = ranks.device_of(comm.rank());
  const auto here = model.module->named_parameters();
  std::vector<std::vector<int>> sets;  // sets of devices, each listed once
  for (const Tie& tie : ties_) {
    if (std::find(sets.begin(), sets.end(), tie.devices) == sets.end()) sets.push_back(tie.devices);
  }
  for (const std::vector<int>& set : sets) {
    const bool takes_part = std::find(set.begin(), set.end(), device) != set.end();
    TiedGroup group{{}, {}, comm.split(takes_part ? 1 : 0, comm.rank()), false};
    group.is_first = takes_part && group.comm.rank() == 0;
    group.is_on_first_device = takes_part && set.front() == device;
    for (const Tie& tie : ties_) {
      if (!takes_part || tie.devices != set) continue;
      for (const auto& [name, of_all] : model.tied) {
        if (of_all != tie.name) continue;
        const at::Tensor& parameter = here[name];
        const bool is_known = std::any_of(group.all.begin(), group.all.end(), [&](const at::Tensor& p) { return p.is_same(parameter); });
        if (is_known) continue;  // registered under another name
        group.all.push_back(parameter);
      }
    }
    group.parameters = group.all;
    std::erase_if(group.parameters, [](const at::Tensor& p) { return !p.requires_grad(); });
    groups_.push_back(std::move(group));
  }
  for (const NamedTensor& each : trained_) {
    if (!is_tied(each.tensor)) reduced_by_replicas_.push_back(each);
  }
}

void StageGradients::make_parameters_equal() const {
  make_equal(replicas_, model_.module->parameters());
  make_equal(replicas_, model_.module->buffers());
  for (const TiedGroup& group : groups_) make_equal(group.comm, group.all);
}

bool StageGradients::counts_tied(const at::Tensor& parameter) const {
  return std::any_of(groups_.begin(), groups_.end(), [&](const TiedGroup& group) {
    const bool has = std::any_of(group.parameters.begin(), group.parameters.end(), [&](const at::Tensor& p) { return p.is_same(parameter); });
    return has && group.is_on_first_device;
  });
}

bool StageGradients::is_tied(const at::Tensor& parameter) const {
  return std::any_of(groups_.begin(), groups_.end(), [&](const TiedGroup& group) {
    return std::any_of(group.parameters.begin(), group.parameters.end(), [&](const at::Tensor& p) { return p.is_same(parameter); });
  });
}

bool StageGradients::needs_preparation() const {
  if (reduced_by_replicas_.empty() || replicas_.size() == 1) return false;
  return !reducer_ || reducer_->specs() != specs_of(reduced_by_replicas_);
}

void StageGradients::prepare() {
  reducer_.reset();
  // All gradients exist when the first one is marked ready, so reduction can overlap only with the computation of other stages.
  ReducerOptions options{.reduction = Reduction::sum, .overlap = false, .parts = split_layers_, .device = reduced_by_replicas_[0].tensor.device()};
  if (options.device.is_cpu()) options.sparse = sparse_;  // elsewhere the pass refuses them by name
  reducer_ = std::make_unique<Reducer>(replicas_, specs_of(reduced_by_replicas_), options);
}

void StageGradients::begin() {
  if (!std::exchange(reduced_, false)) return;
  for (const TiedGroup& group : groups_) {
    for (const at::Tensor& parameter : group.parameters) {
      if (!group.is_first && is_own(parameter.grad())) parameter.mutable_grad() = at::Tensor();
    }
  }
  for (const NamedTensor& each : reduced_by_replicas_) {
    if (replicas_.rank() != 0 && is_own(each.tensor.grad())) each.tensor.mutable_grad() = at::Tensor();
  }
}

void StageGradients::reduce() {
  const at::NoGradGuard no_grad;
  if (replicas_.size() > 1) reduce_replicas();  // first, because a device's own gradients are reduced while others compute
  reduce_tied();
  reduced_ = true;
}

void StageGradients::reduce_replicas() {
  if (reduced_by_replicas_.empty()) return;
  Reducer& all = *reducer_;
  all.begin();
  for (int64_t id = 0; id < all.size(); ++id) {
    const at::Tensor gradient = gradient_of(reduced_by_replicas_[static_cast<size_t>(id)].tensor);
    if (is_own(gradient)) {
      all.mark_ready(id, gradient);
    } else {
      all.mark_unused(id);
    }
  }
  all.wait();
  for (int64_t id = 0; id < all.size(); ++id) {
    if (all.used(id)) set_gradient(reduced_by_replicas_[static_cast<size_t>(id)].tensor, all.gradient(id));
  }
}

void StageGradients::reduce_tied() {
  for (const TiedGroup& group : groups_) {
    if (group.parameters.empty()) continue;
    const at::Tensor used = at::zeros({static_cast<int64_t>(group.parameters.size())}, at::kLong);
    std::vector<at::Tensor> gradients;
    for (size_t i = 0; i < group.parameters.size(); ++i) {
      const at::Tensor gradient = gradient_of(group.parameters[i]);
      used[static_cast<int64_t>(i)] = is_own(gradient) ? 1 : 0;
      gradients.push_back(is_own(gradient) ? gradient : at::zeros_like(group.parameters[i]));
    }
    allreduce(group.comm, used, ReduceOp::max);
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (used[static_cast<int64_t>(i)].item<int64_t>() == 0) continue;
      allreduce(group.comm, gradients[i], ReduceOp::sum);
      set_gradient(group.parameters[i], gradients[i]);
    }
  }
}

double StageGradients::clip(double max_norm) {
  TW_EXPECTS(reduced_, "there are no gradients yet: call run() before you clip them");
  GradientShare share;
  const bool is_first_replica = replicas_.rank() == 0;
  for (const NamedTensor& each : trained_) {
    if (!each.tensor.grad().defined()) continue;
    const bool here = is_tied(each.tensor) ? counts_tied(each.tensor) && is_first_replica : is_first_replica;
    (here && !is_counted_elsewhere(split_layers_, each.name) ? share.counted : share.others).push_back(each.tensor.grad());
  }
  for (const auto& part : split_layers_) share.sum_over.push_back(&part->ranks);
  share.sum_over.push_back(&comm_);
  return clip_gradient_norm(share, max_norm);
}

void StageGradients::remember_buffers() {
  if (replicas_.size() == 1) return;
  for (const at::Tensor& each : buffers_) buffers_before_.push_back(each.detach().clone());
}

void StageGradients::average_buffers(double share) {
  if (replicas_.size() == 1 || buffers_.empty()) return;
  const at::Tensor changed = changed_since(buffers_before_, buffers_);
  allreduce(replicas_, changed, ReduceOp::max);
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (changed[static_cast<int64_t>(i)].item<int64_t>() == 0) continue;
    const at::Tensor values = buffers_[i].detach();
    if (is_integral(values)) {
      allreduce(replicas_, values.scalar_type() == at::kBool ? values.view(at::kByte) : values, ReduceOp::max);
    } else {
      allreduce(replicas_, values.mul_(share), ReduceOp::sum);
    }
  }
  buffers_before_.clear();
}

}  // namespace tw::pipeline
