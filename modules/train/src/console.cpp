// SPDX-License-Identifier: Apache-2.0
#include <tw/train/console.hpp>

#include <cmath>
#include <filesystem>
#include <ostream>
#include <string_view>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>

namespace tw::train {
namespace {

std::string percent(double share) { return fixed_text(100 * share, 2) + " %"; }

// 431080 as "431,080".
std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<size_t>(at), ",");
  return text;
}

// Small losses (1e-5 for a good surrogate) get three significant digits.
std::string loss_text(double value) { return value != 0 && value < 0.01 ? scientific_text(value, 2) : fixed_text(value, 3); }

// "accuracy 87.51 %, loss 0.341"; "" without figures.
std::string text_of(const Figures& figures) {
  const double accuracy = figure(figures, "accuracy");
  std::string text = std::isnan(accuracy) ? "" : concat("accuracy ", percent(accuracy));
  for (const auto& [name, value] : figures) {
    if (name != "accuracy") text += concat(text.empty() ? "" : ", ", name, " ", loss_text(value));
  }
  return text;
}

/// "812 pushes/s and 812 pulls/s, 1.20 % of the step time spent waiting; staleness of the pushes: median 2, maximum 9"
std::string servers_text(const ServerFigures& figures) {
  int64_t pushes = 0;
  for (const int64_t each : figures.staleness) pushes += each;
  const auto age_of = [&](double share) {
    int64_t so_far = 0;
    size_t age = 0;
    while (age + 1 < figures.staleness.size() &&
           (so_far += figures.staleness[age]) < static_cast<int64_t>(std::ceil(share * static_cast<double>(pushes))))
      ++age;
    return concat(age, age + 1 == figures.staleness.size() ? " or more" : "");
  };
  return concat(format_count(figures.pushes_per_s), " pushes/s and ", format_count(figures.pulls_per_s), " pulls/s, ", percent(figures.waiting_share),
                " of the step time spent waiting; staleness of the pushes: median ", age_of(0.5), ", maximum ", age_of(1));
}

// Relative if it lies in the working directory.
std::string shown(const std::filesystem::path& path) {
  std::error_code code;
  const std::filesystem::path relative = path.lexically_relative(std::filesystem::current_path(code));
  return (relative.empty() || *relative.begin() == ".." ? path : relative).string();
}

/// "runs/lenet: metrics.jsonl, checkpoints": files that the run has written; "" if none.
std::string files_of(const Options& options) {
  const bool keeps = options.checkpoint.every_epochs > 0 || options.checkpoint.every_steps > 0;  // otherwise existing files are an earlier run's
  std::string names;
  for (const char* name : {"metrics.jsonl", "metrics.csv", "checkpoints", "best", "best.safetensors"}) {
    std::error_code code;
    const std::filesystem::path path = options.folder() / name;
    const bool metrics = std::string_view(name).starts_with("metrics");
    if ((metrics || keeps) && !std::filesystem::is_empty(path, code) && !code) names += concat(names.empty() ? "" : ", ", name);
  }
  return names.empty() ? "" : concat(shown(options.folder()), ": ", names);
}

}  // namespace

Console::Console(std::ostream& out, bool terminal, std::string unit) : out_(out), terminal_(terminal), unit_(std::move(unit)) {}

void Console::on_start_epoch(State& state) {
  bar_.emplace(out_, terminal_, concat("epoch ", state.epoch, "/", state.options.epochs), unit_, state.epoch_samples);
}

void Console::on_update(State& state) { bar_->update(state.samples, "loss " + loss_text(state.mean_loss)); }

void Console::on_end_epoch(State& /*state*/, const EpochReport& report) {
  bar_->finish(concat("loss ", loss_text(report.train_loss), report.validation.empty() ? "" : "  validation ", text_of(report.validation)));
  bar_.reset();
}

void Console::on_end(State& state, const Summary& summary) {
  if (bar_) bar_->finish("ended here");
  const auto line = [&](const char* name, const std::string& value) { out_ << "  " << name << value << '\n'; };
  out_ << '\n' << state.options.name << ": " << (summary.stopped_because.empty() ? "done" : "ended: " + summary.stopped_because) << '\n';
  if (!summary.finished) line("to continue    ", summary.diverged ? "pass --resume, with other settings" : "pass --resume");
  if (!summary.test.empty()) {
    const double accuracy = figure(summary.test, "accuracy");
    const std::string of = concat(grouped(summary.test_samples), " ", unit_, ", loss ", loss_text(figure(summary.test, "loss")));
    if (std::isnan(accuracy)) {
      line("test           ", of);
    } else {
      line("test accuracy  ", concat(percent(accuracy), " of ", of));
    }
  }
  if (!summary.validation.empty()) line("validation     ", text_of(summary.validation));
  if (summary.best_epoch > 0 && summary.best_epoch != summary.epochs) {
    line("best           ",
         concat(state.options.early_stopping.watch, " ", loss_text(summary.best), " on the validation set, in epoch ", summary.best_epoch));
  }
  line("trained        ", concat(grouped(summary.parameters), " parameters, ", summary.epochs, " epochs, ", grouped(summary.steps), " steps of ",
                                 grouped(summary.global_batch), " ", unit_, " on ", summary.ranks, summary.ranks == 1 ? " rank" : " ranks", ", in ",
                                 format_duration(summary.train_time)));
  if (summary.skipped_steps > 0) line("skipped        ", concat(summary.skipped_steps, " updates with values that were not finite"));
  if (summary.overflowed_steps > 0) {
    line("skipped        ", concat(summary.overflowed_steps, " updates whose gradients overflowed, because the loss scale was too large"));
  }
  line("speed          ", concat(format_count(summary.samples_per_s), " ", unit_, "/s"));
  line("communication  ", concat(format_count(summary.bytes_per_step), "B per step and rank; ", percent(summary.exposed_comm_share),
                                 " of the step time was spent waiting for it, ", percent(summary.waited_for_data_share), " waiting for data"));
  if (!summary.memory.empty()) line("memory         ", memory_text(summary.memory));
  if (summary.slow_rank) {
    const auto& [rank, host, share] = *summary.slow_rank;
    line("slow rank      ", concat("rank ", rank, " on ", host, ": the others waited ", percent(share), " of the time for it"));
  }
  if (summary.servers) line("servers        ", servers_text(*summary.servers));
  const std::string files = files_of(state.options);
  if (!files.empty()) line("files          ", files);
  out_ << std::flush;
}

}  // namespace tw::train
