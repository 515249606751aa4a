// SPDX-License-Identifier: Apache-2.0
#include "best_evaluation.hpp"

#include <cmath>
#include <tw/base/concat.hpp>

namespace tw::train {
BestEvaluation::BestEvaluation(const Objective& objective, const Options& options) : objective_(objective), options_(options) {}

bool BestEvaluation::larger_is_better() const {
  for (const Metric& metric : objective_.metrics) {
    if (metric.name == options_.early_stopping.watch) return metric.larger_is_better;
  }
  return false;
}

bool BestEvaluation::judge(const EpochReport& report, Progress& progress) const {
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

std::string BestEvaluation::begin_another_watch(Progress& progress) const {
  const std::string& now = options_.early_stopping.watch;
  if (progress.best_epoch == 0 || progress.watch.empty() || progress.watch == now) return "";
  const std::string line = concat("early_stopping.watch is ", now, " now, and was ", progress.watch,
                                  " before: the best model is chosen among the evaluations from now on");
  progress.best = 0;
  progress.best_epoch = progress.waited = 0;
  return line;
}

std::string BestEvaluation::why_out_of_patience(const Progress& progress) const {
  const EarlyStopping& rule = options_.early_stopping;
  if (rule.patience == 0 || progress.waited < rule.patience) return "";
  return concat(rule.watch, " has not improved for ", progress.waited, " evaluations");
}

}  // namespace tw::train
