// SPDX-License-Identifier: Apache-2.0
#include <tw/pipeline/pipeline.hpp>

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/releasing_others.hpp>
#include <tw/pipeline/check.hpp>

#include "messages.hpp"

namespace tw::pipeline {
namespace {

/// The i-th of n nearly equal parts of `count`: where it begins.
int64_t begin_of_part(int64_t count, int64_t n, int64_t i) { return count / n * i + std::min(i, count % n); }

/// Stage i on device i, nothing wrong.
void expect_runs(const Schedule& schedule, int ranks) {
  TW_EXPECTS(schedule.stages == ranks && schedule.devices.size() == static_cast<size_t>(ranks), "a schedule of ", schedule.stages, " stages on ",
             schedule.devices.size(), " devices for ", ranks, " ranks");
  for (size_t device = 0; device < schedule.devices.size(); ++device) {
    for (const Action& action : schedule.devices[device]) {
      TW_EXPECTS(action.stage == static_cast<int>(device), "stage ", action.stage, " of the schedule is on device ", device, ", not on its own");
    }
  }
  const std::vector<std::string> problems = problems_of(schedule, schedule.micro_batches);
  TW_EXPECTS(problems.empty(), "the schedule does not run: ", problems.front());
}

/// The rows of micro-batch `m`.
at::Tensor rows_of(const at::Tensor& batch, int micro_batches, int m) {
  const int64_t begin = begin_of_part(batch.size(0), micro_batches, m);
  return batch.narrow(0, begin, begin_of_part(batch.size(0), micro_batches, m + 1) - begin);
}

/// What a stage keeps of a micro-batch between its two passes.
struct Pass {
  at::Tensor input;   // a leaf
  at::Tensor output;  // or, on the last stage, the micro-batch's share of the loss
};

}  // namespace

Pipeline::Pipeline(const Communicator& comm, const std::vector<BlockFactory>& blocks, Schedule schedule)
    : comm_(comm.dup()), schedule_(std::move(schedule)) {
  expect_same_on_all_ranks(
      comm_, "a pipeline's schedule and its number of blocks",
      {concat(schedule_.stages, " stages, ", schedule_.micro_batches, " micro-batches"), to_text(schedule_), concat(blocks.size(), " blocks")});
  expect_runs(schedule_, comm_.size());
  const auto count = static_cast<int64_t>(blocks.size());
  TW_EXPECTS(count >= comm_.size(), count, " blocks for ", comm_.size(), " stages: each needs one at least");
  begin_ = begin_of_part(count, comm_.size(), comm_.rank());
  const int64_t end = begin_of_part(count, comm_.size(), comm_.rank() + 1);
  releasing_others(comm_, [&] {
    for (int64_t i = 0; i < count; ++i) {
      Block made = blocks[static_cast<size_t>(i)]();
      if (i < begin_ || i >= end) continue;
      register_module(std::to_string(i), made.module);
      blocks_.push_back(std::move(made));
    }
    comm_.barrier();  // none goes on if one cannot
  });
  comm.barrier();  // nor is one still here that what another does next could release
}

at::Tensor Pipeline::through_blocks(at::Tensor x) const {
  for (const Block& each : blocks_) x = each.forward(x);
  return x;
}

double Pipeline::run(const at::Tensor& inputs, const at::Tensor& targets, const Loss& loss) {
  return releasing_others(comm_, [&] {
    const int micro_batches = schedule_.micro_batches;
    const Rank before(comm_.rank() - 1);
    const Rank behind(comm_.rank() + 1);
    const at::Tensor& batch = is_first() ? inputs : targets;
    if (is_first() || is_last()) {
      TW_EXPECTS(batch.dim() > 0 && batch.size(0) >= micro_batches, "a batch of ", batch.dim() > 0 ? batch.size(0) : 0, " rows for ", micro_batches,
                 " micro-batches");
    }
    const c10::AutoGradMode gradients(true);
    std::vector<Pass> passes(static_cast<size_t>(micro_batches));
    std::vector<Work> sends;
    const at::Tensor total = at::zeros({}, at::kDouble);
    const auto forward = [&](int m, Pass& pass) {
      pass.input = is_first() ? rows_of(inputs, micro_batches, m) : receive_any(comm_, before);
      if (!is_first()) pass.input.set_requires_grad(true);
      pass.output = through_blocks(is_first() ? pass.input : pass.input.clone());  // a block may work in place
      if (!is_last()) {
        TW_EXPECTS(pass.output.is_floating_point(), "what stages hand on has a gradient; stage ", int{comm_.rank()}, " gives ",
                   pass.output.scalar_type());
        return send_any(comm_, pass.output.detach(), behind, sends);
      }
      const at::Tensor of_rows = rows_of(targets, micro_batches, m);
      TW_EXPECTS(of_rows.size(0) == pass.output.size(0), "micro-batch ", m, " has ", pass.output.size(0), " outputs and ", of_rows.size(0),
                 " targets");
      pass.output = loss(pass.output, of_rows).mul(static_cast<double>(of_rows.size(0)) / static_cast<double>(targets.size(0)));
      total.add_(pass.output.detach());
    };
    const auto backward = [&](Pass& pass) {
      const at::Tensor cotangent = is_last() ? at::Tensor() : receive_any(comm_, behind);
      if (pass.output.requires_grad()) pass.output.backward(cotangent);  // the first stages may have nothing to train
      const at::Tensor& gradient = pass.input.grad();
      if (!is_first()) send_any(comm_, gradient.defined() ? gradient : at::zeros_like(pass.input), before, sends);
      pass = Pass();
    };
    for (const Action& action : schedule_.devices[static_cast<size_t>(comm_.rank())]) {
      Pass& pass = passes[static_cast<size_t>(action.micro_batch)];
      action.kind == Action::Kind::forward ? forward(action.micro_batch, pass) : backward(pass);
      std::erase_if(sends, [](Work& work) { return work.test(); });
    }
    wait_all(sends);
    broadcast(comm_, total, Rank(comm_.size() - 1));
    return total.item<double>();
  });
}

at::Tensor Pipeline::forward(const at::Tensor& inputs) {
  return releasing_others(comm_, [&] {
    const c10::AutoGradMode no_gradients(false);
    std::vector<Work> sends;
    const at::Tensor output = through_blocks(is_first() ? inputs : receive_any(comm_, Rank(comm_.rank() - 1)));
    if (!is_last()) send_any(comm_, output, Rank(comm_.rank() + 1), sends);
    wait_all(sends);
    return broadcast_any(comm_, output, Rank(comm_.size() - 1));
  });
}

}  // namespace tw::pipeline
