// SPDX-License-Identifier: Apache-2.0
#include "best_model.hpp"

#include <cmath>
#include <map>
#include <tw/base/concat.hpp>
#include <tw/base/file.hpp>
#include <tw/base/log.hpp>
#include <tw/tensor/safetensors.hpp>

namespace tw::train {
namespace {

void remove_file(const std::filesystem::path& path) {
  std::error_code code;
  if (!std::filesystem::remove(path, code) && code) log_warning(path.string(), " of an earlier run cannot be removed: ", code.message());
}

}  // namespace

BestModel::BestModel(const Model& model, const Objective& objective, const Options& options)
    : model_(model), objective_(objective), options_(options) {}

bool BestModel::larger_is_better() const {
  for (const Metric& metric : objective_.metrics) {
    if (metric.name == options_.early_stopping.watch) return metric.larger_is_better;
  }
  return false;
}

bool BestModel::judge(const EpochReport& report, Progress& progress) const {
  const EarlyStopping& rule = options_.early_stopping;
  const double value = figure(report.validation, rule.watch);
  const double gain = larger_is_better() ? value - progress.best : progress.best - value;
  if (!std::isfinite(value) || (progress.best_epoch > 0 && !(gain > rule.min_delta))) {
    ++progress.waited;
    return false;
  }
  progress.watch = rule.watch;
  progress.best = value;
  progress.best_epoch = report.epoch;
  progress.waited = 0;
  return true;
}

std::string BestModel::begin_another_watch(Progress& progress) const {
  const std::string& now = options_.early_stopping.watch;
  if (progress.best_epoch == 0 || progress.watch.empty() || progress.watch == now) return "";
  const std::string line = concat("early_stopping.watch is ", now, " now, and was ", progress.watch,
                                  " before: the best model is chosen among the evaluations from now on");
  progress.best = 0;
  progress.best_epoch = progress.waited = 0;
  return line;
}

std::string BestModel::why_out_of_patience(const Progress& progress) const {
  const EarlyStopping& rule = options_.early_stopping;
  if (rule.patience == 0 || progress.waited < rule.patience) return "";
  return concat(rule.watch, " has not improved for ", progress.waited, " evaluations");
}

void BestModel::keep(const Progress& progress, const std::vector<NamedTensor>& tensors) const {
  std::map<std::string, std::string> metadata{{"epoch", std::to_string(progress.best_epoch)}, {options_.early_stopping.watch, concat(progress.best)}};
  metadata.insert(model_.aliases.begin(), model_.aliases.end());  // like export_safetensors()
  try {
    write_safetensors(path(), tensors, metadata);
  } catch (const std::exception& error) {
    log_error("the best model was not saved: ", error.what(), "; training continues");
  }
}

void BestModel::forget() const { remove_file(path()); }

void BestModel::remove_partial() const {
  for (const std::string& failure : remove_partials_of(path())) log_warning("a partial file of an earlier run cannot be removed: ", failure);
}

}  // namespace tw::train
