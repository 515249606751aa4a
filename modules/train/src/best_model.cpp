// SPDX-License-Identifier: Apache-2.0
#include "best_model.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/base/log.hpp>
#include <tw/comm/objects.hpp>
#include <tw/state/checkpoint.hpp>

#include "logged_failure.hpp"
#include "model_shards.hpp"

namespace tw::train {
namespace {

constexpr int64_t after_all_steps = std::numeric_limits<int64_t>::max();
constexpr const char* without_model = "this best model is not kept";  // during training, or at its end

/// The part of a run's progress that belongs to its best model.
Progress of_best_model(const Progress& run, const Model& model) {
  Progress progress;
  progress.epoch = run.epoch;
  progress.step = run.step;
  progress.global_batch = run.global_batch;
  progress.seed = run.seed;
  progress.data = run.data;
  progress.best_epoch = run.best_epoch;
  progress.best = run.best;
  progress.watch = run.watch;
  progress.optimizer = run.optimizer;
  progress.validation = run.validation;
  progress.empty_submodules = model.empty_submodules;
  return progress;
}

}  // namespace

// The store keeps all models: which of them are out of date depends on the run's checkpoints.
BestModel::BestModel(const Ranks& ranks, const Model& model, const Options& options)
    : ranks_(ranks),
      model_(model),
      export_(absolute_path(options.folder() / "best.safetensors")),
      store_(ranks.all, options.folder() / "best", {.keep = std::numeric_limits<int64_t>::max()}) {
  if (ranks_.all.rank() == 0) export_.remove_partials();
}

void BestModel::keep(const Progress& progress, const Strategy& strategy, const Snapshots& checkpoints) {
  const at::NoGradGuard no_grad;
  settle();
  if (remove_outdated(checkpoints)) remove_export();  // it is not the best one any more, and another copy is in best/
  store_.save(progress.step, with_aliases(strategy.exported_shards(), model_), to_json(of_best_model(progress, model_)));
}

void BestModel::poll() {
  log_failure(ranks_.all, without_model, [&] { store_.poll(); });
}

void BestModel::settle() {
  log_failure(ranks_.all, without_model, [&] { store_.wait(); });
}

void BestModel::resume(Progress& progress) {
  store_.remove_steps(progress.step + 1, after_all_steps);
  const std::optional<int64_t> step = store_.newest_valid();
  store_.remove_steps(step.value_or(-1) + 1, after_all_steps);  // damaged ones
  Progress best = step ? progress_from_json(store_.metadata(*step)) : Progress();
  const std::string text = ranks_.all.rank() == 0 ? to_json(export_.evaluation(progress)) : "";
  const Progress exported = progress_from_json(broadcast_string(ranks_.all, text, Rank(0)));
  if (exported.best_epoch > best.best_epoch) {  // the other models are older
    store_.remove_all();
    best = exported;
  } else if (!step || exported.best_epoch != best.best_epoch || exported.best != best.best) {
    remove_export();
  }
  if (best.best_epoch == 0) {
    if (progress.best_epoch > 0 && ranks_.all.rank() == 0) {
      log_warning("the best model, of epoch ", progress.best_epoch, ", is not in ", store_.directory().string(),
                  ": the best is chosen among the evaluations from now on");
    }
    progress.waited = 0;
  } else {
    progress.watch = best.watch;
  }
  progress.best = best.best;
  progress.best_epoch = best.best_epoch;
}

void BestModel::finish(const Snapshots& checkpoints) {
  settle();
  const bool has_remembered = remove_outdated(checkpoints);
  if (ranks_.all.rank() == 0 && (has_remembered || !export_.exists())) export_best();  // or the export is the remembered one's only copy
}

void BestModel::remove_all() {
  settle();
  store_.remove_all();
  remove_export();
}

bool BestModel::remove_outdated(const Snapshots& checkpoints) {
  bool has_remembered = false;
  log_failure(ranks_.all, "earlier models stay", [&] {
    const std::vector<int64_t> steps = store_.steps();
    if (steps.empty()) return;
    const std::optional<int64_t> checkpoint = checkpoints.last_step();  // throws, so that no model is removed, if the folder cannot be listed
    const int64_t newest = steps.back();
    const auto later = std::ranges::upper_bound(steps, checkpoint.value_or(-1));
    const bool has_earlier = later != steps.begin();
    const int64_t remembered = has_earlier ? *std::prev(later) : newest;
    store_.remove_steps(0, remembered);
    store_.remove_steps(remembered + 1, newest);
    has_remembered = has_earlier;
  });
  return has_remembered;
}

void BestModel::export_best() const {
  try {
    if (!std::filesystem::is_empty(store_.directory())) export_.write(Checkpoint::open(store_.directory()));
  } catch (const std::exception& error) {
    log_error("the best model was not exported from ", store_.directory().string(), ": ", error.what());
  }
}

void BestModel::remove_export() const {
  if (ranks_.all.rank() == 0) export_.remove();
}

}  // namespace tw::train
