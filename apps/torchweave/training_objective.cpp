// SPDX-License-Identifier: Apache-2.0
#include "training_objective.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/suggest.hpp>
#include <tw/comm/device.hpp>
#include <tw/train/hook.hpp>

#include "search_space.hpp"
#include "validation.hpp"

namespace tw::tool {
namespace {

// "error" is 1 - accuracy.
double value_of(const train::Figures& figures, const std::string& name) {
  return name == "error" ? 1 - train::figure(figures, "accuracy") : train::figure(figures, name);
}

/// Reports the result of each epoch to the search, and ends the training if the search stops the trial.
class Reporter : public train::Hook {
 public:
  /// @param figures names of figures on the validation set; the first one is reported. @param best their values in the trial's best epoch; updated
  Reporter(search::Trial& trial, std::vector<std::string> figures, at::Tensor best)
      : trial_(trial), figures_(std::move(figures)), best_(std::move(best)) {}

  void on_end_epoch(train::State& state, const train::EpochReport& report) override {
    if (stopped_ || report.validation.empty()) return;
    std::vector<double> values;
    for (const std::string& each : figures_) values.push_back(value_of(report.validation, each));
    const std::span best(best_.data_ptr<double>(), values.size());
    if (values[0] < best[0]) std::ranges::copy(values, best.begin());
    if (trial_.report(report.epoch, values[0])) return;
    stopped_ = true;
    state.stop("the search stops this trial");
  }

  bool stopped() const { return stopped_; }

 private:
  search::Trial& trial_;
  std::vector<std::string> figures_;
  at::Tensor best_;
  bool stopped_ = false;
};

/// Keeps a copy of a training's tensors from its best epoch.
class BestEpoch : public train::Hook {
 public:
  /// @param figure the figure on the validation set that decides which epoch is the best
  BestEpoch(train::Trainer& trainer, std::string figure) : trainer_(trainer), figure_(std::move(figure)) {}

  void on_end_epoch(train::State& /*state*/, const train::EpochReport& report) override {
    const double value = report.validation.empty() ? best_ : value_of(report.validation, figure_);
    if (!(value < best_)) return;
    best_ = value;
    kept_.clear();
    for (const NamedShard& each : trainer_.shards()) kept_[each.name].push_back(each.tensor.detach().clone());
  }

  /// Restores the copy. Collective.
  void restore() {
    const at::NoGradGuard no_grad;
    std::vector<std::string> names;
    for (const auto& [name, slices] : kept_) names.push_back(name);
    if (names.empty()) throw Error(concat("the validation ", figure_, " was not finite after any epoch: lower the learning rate, or check the data"));
    trainer_.prepare(names);
    const std::vector<NamedShard> shards = trainer_.shards();
    std::map<std::string, size_t> put;  // by name: number of slices restored
    for (const NamedShard& each : shards) each.tensor.copy_(kept_.at(each.name).at(put[each.name]++));
    trainer_.apply(shards);
  }

 private:
  train::Trainer& trainer_;
  std::string figure_;
  double best_ = std::numeric_limits<double>::infinity();
  std::map<std::string, std::vector<at::Tensor>> kept_;  // a rank may hold several slices of a tensor, in their order
};

/// Ends this process with the signal that ended a training. The trial then counts as lost, and a continued search repeats it.
void raise_signal_again(const std::string& reason) {
  if (reason == "SIGTERM") std::raise(SIGTERM);
  if (reason == "SIGUSR1") std::raise(SIGUSR1);
}

bool is_figure(const std::string& objective) { return objective != "seconds"; }

void expect_known(const std::vector<std::string>& objectives, const std::vector<std::string>& known, const std::string& data) {
  for (const std::string& each : objectives) {
    if (std::ranges::find(known, each) != known.end()) continue;
    throw ConfigError({concat("search.objectives has \"", each, "\", which trainings on data of kind \"", data, "\" do not report; the nearest is \"",
                              nearest_name(each, known), '"')});
  }
  if (std::ranges::none_of(objectives, is_figure)) {
    throw ConfigError({concat("search.objectives has only \"seconds\", but needs a figure of the trained model: add \"", known.front(), '"')});
  }
}

/// Each parameter at one end of its range.
std::vector<double> corner(const search::Space& space, bool high) {
  std::vector<double> values;
  for (const search::Parameter& each : space.parameters()) {
    if (each.has_choices()) {
      values.push_back(high ? static_cast<double>(each.count() - 1) : 0);
    } else {
      values.push_back(high ? each.high : each.low);
    }
  }
  space.repair(values);
  return values;
}

}  // namespace

TrainingObjective::TrainingObjective(const search::Space& space, TrainingOptions options) : options_(std::move(options)), device_(c10::kCPU) {
  const TrainConfig first = read(space, corner(space, false));
  device_ = device_of_rank(options_.ranks, first.model.device);
  stall_ = first.stall;
  epochs_ = std::max(first.run.epochs, read(space, corner(space, true)).run.epochs);
  const std::string own = first.data.kind == "mnist" ? "error" : "mae";
  if (options_.objectives.empty()) options_.objectives = {own == "error" ? own : "loss"};
  expect_known(options_.objectives, {own, "loss", "seconds"}, first.data.kind);
  if (!validation_of(first.data).is_there()) {
    throw ConfigError({"data.validation is 0, but a search compares its trials on a validation set: set it to 0.1, for example"});
  }
  data(first.data);
}

Config TrainingObjective::config_for(const search::Space& space, const std::vector<double>& values) const {
  Config config = options_.base;
  config.overlay(options_.settings);
  for (const auto& [name, text] : settings_of(space, values)) config.set(concat(name, '=', text), "search.space");
  return config;
}

TrainConfig TrainingObjective::read(const search::Space& space, const std::vector<double>& values) const {
  Config config = config_for(space, values);
  for (const char* key : {"checkpoint.every_epochs", "checkpoint.every_steps"}) {
    if (!options_.settings.is_set(key)) config.set(concat(key, "=0"), "search");
  }
  return read_train_config(config);
}

const TrainData& TrainingObjective::data(const DataOptions& options) {
  const auto what = [](const DataOptions& o) {
    return std::tie(o.kind, o.directory, o.header, o.train_samples, o.test_samples, o.validation, o.validation_seed, o.steps);
  };
  if (data_.train_set == nullptr || what(opened_) != what(options)) {
    data_ = open_data(options);
    opened_ = options;
  }
  return data_;
}

TrainConfig TrainingObjective::config_of_run(const search::Space& space, const std::vector<double>& values, const std::string& name) const {
  TrainConfig config = read(space, values);
  config.run.output = options_.folder;
  config.run.name = name;
  config.run.resume = train::Resume::fresh;
  return config;
}

std::vector<std::string> TrainingObjective::figures() const {
  std::vector<std::string> figures;
  std::ranges::copy_if(options_.objectives, std::back_inserter(figures), is_figure);
  return figures;
}

search::Outcome TrainingObjective::operator()(const search::Configuration& configuration, search::Trial& trial) {
  const Stopwatch watch;
  TrainConfig config = config_of_run(configuration.space(), configuration.values(), concat("trial_", trial.number()));
  const Mesh mesh = make_train_mesh(config, trial.comm());
  TrainSetup setup = make_train_setup(config, mesh, data(config.data).without_test_set(), device_);
  train::Trainer trainer = make_trainer(config, setup, mesh);
  const std::vector<std::string> figures = this->figures();
  const at::Tensor best = at::full({static_cast<int64_t>(figures.size())}, std::numeric_limits<double>::infinity(), at::kDouble);
  const auto shards = [&] {
    std::vector<NamedShard> all = trainer.shards();
    all.push_back(whole("best of the trial", best, ShardKind::counter));
    return all;
  };
  trainer.begin_after(trial.attach({.shards = shards,
                                    .prepare = [&](const std::vector<std::string>& names) { trainer.prepare(names); },
                                    .apply = [&](const std::vector<NamedShard>& filled) { trainer.apply(filled); }}));
  Reporter reporter(trial, figures, best);
  trainer.add(reporter);
  const train::Summary summary = trainer.run();
  raise_signal_again(summary.stopped_because);
  if (!reporter.stopped() && !summary.finished) throw Error(summary.stopped_because);
  std::vector<double> found;
  const double* next = best.data_ptr<double>();
  for (const std::string& each : options_.objectives) found.push_back(is_figure(each) ? *next++ : watch.elapsed().count());
  return found;
}

train::Figures TrainingObjective::test(const search::Space& space, const std::vector<double>& values, const Communicator& comm,
                                       const std::string& run) {
  TrainConfig config = config_of_run(space, values, run);
  const TrainData& all = data(config.data);
  const Mesh mesh = make_train_mesh(config, comm);
  TrainSetup setup = make_train_setup(config, mesh, all.without_test_set(), device_);
  train::Trainer trainer = make_trainer(config, setup, mesh);
  BestEpoch best(trainer, figures().front());
  trainer.add(best);
  const train::Summary summary = trainer.run();
  raise_signal_again(summary.stopped_because);
  if (!summary.finished) throw Error(concat("the training of the best configuration for the test ended early: ", summary.stopped_because));
  best.restore();
  train::Figures found = trainer.evaluate(*all.test_set);
  for (auto& [name, value] : found) {
    if (name != "accuracy") continue;
    name = "error";
    value = 1 - value;
  }
  return found;
}

}  // namespace tw::tool
