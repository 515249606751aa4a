// SPDX-License-Identifier: Apache-2.0
#include "snapshots.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/comm/collectives.hpp>

#include "logged_failure.hpp"
#include "model_shards.hpp"
#include "strategies.hpp"

namespace tw::train {
namespace {

constexpr const char* without_checkpoint = "training continues, and earlier checkpoints are intact";

std::vector<double> on_every_rank(const Communicator& comm, double mine) {
  std::vector<double> all(static_cast<size_t>(comm.size()));
  const auto options = at::TensorOptions().dtype(at::kDouble);
  allgather(comm, at::from_blob(&mine, {1}, options), at::from_blob(all.data(), {comm.size()}, options));
  return all;
}

// Lets every rank load the mean over the replicas that saved, as on another number of ranks: own values may belong to another replica now.
// @param stored names in the checkpoint: what may be dropped may also be missing
void load_means(std::vector<NamedShard>& shards, const std::vector<std::string>& stored) {
  for (NamedShard& shard : shards) {
    const bool is_kept = shard.on_reshard == OnReshard::drop && std::ranges::find(stored, shard.name) != stored.end();
    if (shard.on_reshard == OnReshard::mean || is_kept) shard.on_reshard = OnReshard::replicate;
  }
}

}  // namespace

std::vector<NamedShard> shards_of(const Model& model, const Strategy& strategy) {
  std::vector<NamedShard> shards = strategy.shards();
  append(shards, buffer_shards(model));
  return with_aliases(std::move(shards), model);
}

std::string layout_of(const Ranks& ranks, const Strategy& strategy) {
  if (strategy.replicas() == 1) return "one replica";
  return concat(strategy.replicas(), " replicas on ", ranks.mesh);
}

bool has_layout_of(const Progress& progress, const Ranks& ranks, const Strategy& strategy) {
  return progress.layout.empty() || progress.layout == layout_of(ranks, strategy);
}

Snapshots::Snapshots(const Ranks& ranks, const Model& model, const Options& options)
    : ranks_(ranks), model_(model), store_(ranks.all, options.folder() / "checkpoints", {.keep = options.checkpoint.keep}) {}

void Snapshots::poll() {
  log_failure(ranks_.all, without_checkpoint, [&] { store_.poll(); });
}

void Snapshots::settle() {
  log_failure(ranks_.all, without_checkpoint, [&] { store_.wait(); });
}

std::optional<int64_t> Snapshots::last_step() const {
  const std::vector<int64_t> steps = store_.steps();
  return steps.empty() ? std::nullopt : std::optional(steps.back());
}

std::optional<Progress> Snapshots::newest() const {
  const auto step = store_.newest_valid();
  if (!step) return std::nullopt;
  return progress_from_json(store_.metadata(*step));
}

Progress Snapshots::restore(int64_t step, Strategy& strategy) {
  const at::NoGradGuard no_grad;
  settle();
  const std::vector<std::string> stored = store_.names(step);
  strategy.prepare(stored);
  std::vector<NamedShard> shards = shards_of(model_, strategy);
  const Progress progress = progress_from_json(store_.metadata(step));
  if (!has_layout_of(progress, ranks_, strategy)) load_means(shards, stored);
  (void)store_.load(step, shards);
  strategy.apply(shards);
  return progress;
}

void Snapshots::save(Progress progress, const EpochLoss& loss, const LossScaling& scaling, const Strategy& strategy) {
  const at::NoGradGuard no_grad;
  settle();
  progress.empty_submodules = model_.empty_submodules;
  progress.arrival_order = strategy.arrival_order();
  progress.layout = layout_of(ranks_, strategy);
  progress.loss_sums = on_every_rank(ranks_.samples, loss.sum);
  progress.loss_samples = on_every_rank(ranks_.samples, loss.weight);
  if (const auto state = scaling.state()) {
    progress.loss_scales = on_every_rank(ranks_.samples, state->scale);
    progress.good_updates = on_every_rank(ranks_.samples, state->good_updates);
    progress.overflows = on_every_rank(ranks_.samples, state->overflows);
  }
  // Running means differ between ranks; rank 0's are saved. Only buffers are synchronized, so rank 0 continues as if no checkpoint had been taken.
  synchronize(ranks_.samples, model_.buffers);
  store_.save(progress.step, shards_of(model_, strategy), to_json(progress));
}

}  // namespace tw::train
