// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tw/autograd/compute_type.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/planning/stage_ranks.hpp>

#include "parallel_model_impl.hpp"

namespace tw {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Rows of those tensors that this rank has.
Tensors narrow_given(const Tensors& tensors, pipeline::Rows rows) {
  Tensors parts;
  for (const at::Tensor& each : tensors) parts.push_back(each.defined() ? each.narrow(0, rows.begin, rows.count()) : each);
  return parts;
}

}  // namespace

Tensors ParallelModel::Impl::forward(const Tensors& inputs) {
  const std::string problem = program_->problem();
  TW_EXPECTS(problem.empty(), problem);
  const ComputeScope compute(compute_, kind_);
  return program_->forward(inputs);
}

Tensors ParallelModel::Impl::outputs_of(const Tensors& inputs) {
  const ComputeScope compute(compute_, kind_);
  Tensors outputs = program_->evaluate(inputs);
  for (at::Tensor& each : outputs) each = in_float32(each);
  return outputs;
}

std::vector<double> ParallelModel::Impl::evaluate(const Tensors& inputs, const Tensors& targets, const std::vector<OutputSum>& sums, int64_t rows) {
  begin();
  const Update batch = agree(BatchFacts::Call::evaluate, inputs, targets, Loss::over_rows()).second;
  return calls_->together([&] { return make_evaluation(inputs, targets, sums, rows, batch); });
}

std::vector<double> ParallelModel::Impl::make_evaluation(const Tensors& inputs, const Tensors& targets, const std::vector<OutputSum>& sums,
                                                         int64_t rows, const Update& batch) {
  const int64_t here = batch.rows[static_cast<size_t>(ranks_->samples().rank())];
  const int64_t most = *std::ranges::max_element(batch.rows);
  const int64_t chunk = rows > 0 ? rows : divide_up(most, micro_batches_);
  std::vector<double> totals(sums.size(), 0);
  for (int64_t begin = 0; begin < (sums_->gathers_in_passes() ? most : here); begin += chunk) {
    const pipeline::Rows part{std::min(begin, here), std::min(begin + chunk, here)};
    const bool counts = part.count() > 0;
    const Tensors outputs = outputs_of(counts ? narrow_given(inputs, part) : program_->example());
    if (!counts || outputs.empty()) continue;
    for (size_t i = 0; i < sums.size(); ++i) totals[i] += sums[i](outputs, narrow_given(targets, part));
  }
  allreduce(ranks_->comm(), at::from_blob(totals.data(), {static_cast<int64_t>(totals.size())}, at::kDouble), ReduceOp::sum);
  return totals;
}

}  // namespace tw
