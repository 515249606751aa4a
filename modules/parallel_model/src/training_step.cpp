// SPDX-License-Identifier: Apache-2.0
// A step: agreement on the batch, passes, sums over the ranks, and how it is undone.
#include <algorithm>
#include <tw/autograd/compute_type.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/gradients/part_gradients.hpp>
#include <tw/mpi/error.hpp>

#include "parallel_model_impl.hpp"

namespace tw {

std::string ParallelModel::Impl::problem_of(BatchFacts::Call call, const Tensors& inputs) const {
  const auto is_computed = [](const at::Tensor& each) { return each.defined() && each.requires_grad() && !each.is_leaf(); };
  if (call != BatchFacts::Call::evaluate && std::ranges::any_of(inputs, is_computed)) {
    return "the inputs depend on tensors that require gradients, but a ParallelModel does not pass gradients on to its inputs: detach() them, or "
           "add what computes them to the module";
  }
  return program_->problem();
}

std::pair<BatchFacts, Update> ParallelModel::Impl::agree(BatchFacts::Call call, const Tensors& inputs, const Tensors& targets, const Loss& loss) {
  const std::string problem = problem_of(call, inputs);
  BatchFacts facts{.rows = BatchFacts::refused};
  if (problem.empty()) facts = calls_->together([&] { return facts_of(inputs, targets, loss, ranks_->model().size() > 1); });
  facts.call = call;
  facts.modes = program_->modes();
  try {
    return {facts, agree_on_update(ranks_->comm(), facts, place_of_)};
  } catch (const ContractError&) {
    TW_EXPECTS(problem.empty(), problem);
    throw;
  } catch (const RevokedError&) {  // another rank has begun, and failed
    calls_->fail();
    if (call != BatchFacts::Call::evaluate) drop_gradients();
    throw;
  }
}

double ParallelModel::Impl::train_step(const Tensors& inputs, const Tensors& targets, const Loss& loss) {
  begin();
  const auto [facts, update] = agree(BatchFacts::Call::train_step, inputs, targets, loss);
  remember();
  try {
    return calls_->together([&, target_weight = facts.weight, &all = update] {
      const double mean = make_step(inputs, targets, loss, target_weight, all);
      state_.count_update();
      return mean;
    });
  } catch (...) {
    undo_step();
    throw;
  }
}

double ParallelModel::Impl::make_step(const Tensors& inputs, const Tensors& targets, const Loss& loss, double target_weight, const Update& update) {
  const RanksAlong& samples = ranks_->samples();
  const auto place = static_cast<size_t>(samples.rank());
  const std::vector<std::pair<at::Tensor, at::Tensor>> frozen = frozen_gradients();
  double total = accumulate({.inputs = inputs,
                             .targets = targets,
                             .loss = loss,
                             .rows = update.rows[place],
                             .target_weight = target_weight,
                             .weight = update.weight,
                             .update = state_.updates(),
                             .place = ranks_->places().rank(),
                             .warns = !has_stepped_ && ranks_->places().size() > 1 && ranks_->places().rank() == 0,
                             .parameters = parameters_});
  has_stepped_ = true;
  for (const auto& [tensor, gradient] : frozen) set_gradient(tensor, gradient);
  if (samples.size() > 1) {
    std::vector<double> changed = buffers_.changed();
    changed.push_back(total);
    allreduce(*samples.comm(), at::from_blob(changed.data(), {static_cast<int64_t>(changed.size())}, at::kDouble), ReduceOp::sum);
    total = changed.back();
    changed.pop_back();
    if (std::ranges::any_of(changed, [](double each) { return each > 0; })) {
      buffers_.apply(*samples.comm(), changed, static_cast<double>(update.rows[place]) / static_cast<double>(update.all_rows));
    }
  }
  if (ranks_->model().size() > 1) ranks_->comm().barrier();  // the step counts on all ranks, or on none
  return total / loss.scale();
}

double ParallelModel::Impl::accumulate(const ProgramPass& pass) {
  const auto update = sums_->update();
  const ComputeScope compute(compute_, kind_);
  const bool is_split = size_along(mesh().shape(), "tensor") > 1 && pass.rows > 0;  // a pass without rows draws nothing that counts
  if (!is_split) return program_->accumulate(pass, *sums_);
  double loss = 0;
  split_draws_.run(mesh()["tensor"], program_->modes(), [&] { loss = program_->accumulate(pass, *sums_); });
  return loss;
}

std::vector<std::pair<at::Tensor, at::Tensor>> ParallelModel::Impl::frozen_gradients() const {
  std::vector<std::pair<at::Tensor, at::Tensor>> frozen;
  for (const OptimizedTensor& each : optimized_) {
    const at::Tensor& gradient = each.tensor.grad();
    if (!each.tensor.requires_grad()) frozen.emplace_back(each.tensor, gradient.defined() ? gradient.clone() : gradient);
  }
  return frozen;
}

void ParallelModel::Impl::remember() {
  buffers_.remember();
  renormalised_.remember();
}

void ParallelModel::Impl::undo_step() const {
  buffers_.restore();
  renormalised_.restore();
  drop_gradients();
}

void ParallelModel::Impl::drop_gradients() const {
  for (const NamedTensor& each : model().tensors().parameters) each.tensor.mutable_grad() = at::Tensor();
  for (const OptimizedTensor& each : optimized_) each.tensor.mutable_grad() = at::Tensor();
}

}  // namespace tw
