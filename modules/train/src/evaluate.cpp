// SPDX-License-Identifier: Apache-2.0
#include "evaluate.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/util/ScopeExit.h>

#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/data/loader.hpp>
#include <tw/data_parallel/idle_pass.hpp>

#include "pass.hpp"
#include "placeholder_dataset.hpp"

namespace tw::train {
namespace {

at::Tensor as_tensor(std::vector<double>& values) {  // shares memory
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::TensorOptions().dtype(at::kDouble));
}

}  // namespace

std::vector<double> sum_over_ranks(const Communicator& comm, std::vector<double> values) {
  allreduce(comm, as_tensor(values), ReduceOp::sum);
  return values;
}

namespace {

// Sums over this rank's samples.
struct Sums {
  std::vector<double> values;  // loss, then metrics, then the weights of each
  bool known = false;          // this rank had outputs of a pass
};

Sums sums_here(const Communicator& data, const Model& model, const Objective& objective, const Dataset& dataset, int64_t rows, bool in_step) {
  const bool looks = model.trained->needs_samples();
  const PlaceholderDataset placeholder(dataset.size());
  const Dataset& seen = looks ? dataset : static_cast<const Dataset&>(placeholder);
  Loader loader(seen, DistributedSampler(static_cast<size_t>(dataset.size()), data.size(), data.rank(), {.shuffle = false}),
                {.global_batch = rows * data.size(), .device = model.device()});
  loader.begin_epoch(0);
  const size_t figures = 1 + objective.metrics.size();
  Sums sums{std::vector<double>(2 * figures)};
  while (const auto batch = loader.next()) {
    if (batch->size() == 0) {
      const IdlePass idle({});
      if (in_step) model.evaluate(first_samples(dataset, model.device()).inputs);
      continue;
    }
    const at::Tensor outputs = model.evaluate(batch->inputs);
    if (!looks || !outputs.defined()) continue;
    sums.known = true;
    const at::Tensor targets = batch->targets.to(outputs.device());  // a rank without parameters cannot tell the loader the device
    const auto weight_of = [&](const Weight& weight) { return weight ? weight(targets) : static_cast<double>(batch->size()); };
    const double weight = weight_of(objective.weight);
    if (weight > 0) sums.values[0] += objective.loss(outputs, targets).item<double>() * weight;
    sums.values[figures] += weight;
    for (size_t i = 0; i < objective.metrics.size(); ++i) {
      sums.values[i + 1] += objective.metrics[i].sum(outputs, targets);
      sums.values[figures + i + 1] += weight_of(objective.metrics[i].weight);
    }
  }
  return sums;
}

// Broadcasts `values` from the first rank that knows them: ranks' own sums may differ in the last bit.
void share(const Communicator& parts, bool known, std::vector<double>& values) {
  const at::Tensor first = at::scalar_tensor(known ? static_cast<int>(parts.rank()) : parts.size(), at::kLong);
  allreduce(parts, first, ReduceOp::min);
  const auto root = first.item<int64_t>();
  TW_EXPECTS(root < parts.size(), "the model's evaluate() must return its output on at least one of the ", parts.size(), " ranks that hold it");
  broadcast(parts, as_tensor(values), Rank(static_cast<int>(root)));
}

}  // namespace

Figures evaluate(const Ranks& ranks, const Model& model, const Objective& objective, const Dataset& dataset, int64_t rows, bool in_step) {
  if (dataset.size() == 0) return {};
  const at::NoGradGuard no_grad;
  model.set_training(false);
  const auto as_found = c10::make_scope_exit([&] { model.set_training(true); });
  Sums sums = sums_here(ranks.samples, model, objective, dataset, rows, in_step);
  sums.values.push_back(sums.known ? 1 : 0);  // a rank with outputs may have had no samples
  sums.values = sum_over_ranks(ranks.samples, std::move(sums.values));
  if (ranks.parts != nullptr) share(*ranks.parts, sums.values.back() > 0, sums.values);
  const size_t count = 1 + objective.metrics.size();
  Figures figures{{"loss", sums.values[0] / sums.values[count]}};
  for (size_t i = 1; i < count; ++i) figures.emplace_back(objective.metrics[i - 1].name, sums.values[i] / sums.values[count + i]);
  return figures;
}

}  // namespace tw::train
