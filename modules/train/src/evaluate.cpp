// SPDX-License-Identifier: Apache-2.0
#include "evaluate.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/ScopeExit.h>

#include <tw/comm/collectives.hpp>
#include <tw/data/loader.hpp>
#include <tw/data_parallel/idle_pass.hpp>

#include "pass.hpp"
#include "rows_alone.hpp"

namespace tw::train {
std::vector<double> sum_over_ranks(const Communicator& comm, std::vector<double> values) {
  const at::Tensor tensor = at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::TensorOptions().dtype(at::kDouble));
  allreduce(comm, tensor, ReduceOp::sum);
  return values;
}

void make_equal(const Communicator& comm, Figures& figures) {
  for (auto& figure : figures) broadcast(comm, at::from_blob(&figure.second, {}, at::TensorOptions().dtype(at::kDouble)), Rank(0));
}

Figures evaluate(const Communicator& comm, const Model& model, const Objective& objective, const Dataset& dataset, int64_t rows, bool in_step) {
  if (dataset.size() == 0) return {};
  const at::NoGradGuard no_grad;
  model.set_training(false);
  const auto as_found = c10::make_scope_exit([&] { model.set_training(true); });
  const bool looks = model.trained->needs_samples();
  const RowsAlone rows_alone(dataset.size());
  const Dataset& seen = looks ? dataset : static_cast<const Dataset&>(rows_alone);
  Loader loader(seen, DistributedSampler(static_cast<size_t>(dataset.size()), comm.size(), comm.rank(), {.shuffle = false}),
                {.global_batch = rows * comm.size(), .device = model.device()});
  loader.begin_epoch(0);
  std::vector<double> sums(1 + objective.metrics.size());
  while (const auto batch = loader.next()) {
    if (batch->size() == 0) {
      const IdlePass idle({});
      if (in_step) model.forward(first_samples(dataset, model.device()).inputs);
      continue;
    }
    const at::Tensor outputs = model.forward(batch->inputs);
    if (!looks) continue;
    const at::Tensor targets = batch->targets.to(outputs.device());  // where this rank has no parameters that say where
    sums[0] += objective.loss(outputs, targets).item<double>() * static_cast<double>(batch->size());
    for (size_t i = 0; i < objective.metrics.size(); ++i) sums[i + 1] += objective.metrics[i].sum(outputs, targets);
  }
  sums = sum_over_ranks(comm, std::move(sums));
  const auto samples = static_cast<double>(dataset.size());
  Figures figures{{"loss", sums[0] / samples}};
  for (size_t i = 0; i < objective.metrics.size(); ++i) figures.emplace_back(objective.metrics[i].name, sums[i + 1] / samples);
  return figures;
}

}  // namespace tw::train
