// SPDX-License-Identifier: Apache-2.0
#include <tw/train/console.hpp>

#include <array>
#include <cstdio>
#include <ostream>
#include <tw/base/concat.hpp>

namespace tw::train {
namespace {

std::string fixed(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string percent(double share) { return fixed(100 * share, 2) + " %"; }

// 431080 as "431,080".
std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<size_t>(at), ",");
  return text;
}

}  // namespace

Console::Console(std::ostream& out, bool terminal, const Options& options) : out_(out), terminal_(terminal), options_(options) {}

void Console::on_epoch_begin(int64_t epoch, int64_t samples) {
  bar_.emplace(out_, terminal_, concat("epoch ", epoch, "/", options_.epochs), "images", samples);
}

void Console::on_step(const StepReport& report) { bar_->update(report.samples, "loss " + fixed(report.loss, 3)); }

void Console::on_epoch_end(const EpochReport& report) {
  bar_->finish(concat("loss ", fixed(report.train_loss, 3), "  test accuracy ", percent(report.test_accuracy)));
}

void Console::on_end(const Summary& summary) {
  const auto line = [&](const char* name, const std::string& value) { out_ << "  " << name << value << '\n'; };
  out_ << '\n' << options_.name << ": done\n";
  line("test accuracy  ",
       concat(percent(summary.test_accuracy), " of ", grouped(summary.test_samples), " images, loss ", fixed(summary.test_loss, 3)));
  line("trained        ", concat(grouped(summary.parameters), " parameters, ", summary.epochs, " epochs, ", grouped(summary.steps), " steps of ",
                                 summary.ranks, " x ", options_.batch_size, " images, in ", format_duration(summary.train_time)));
  line("speed          ", concat(format_count(summary.samples_per_s), " images/s on ", summary.ranks, summary.ranks == 1 ? " rank" : " ranks"));
  line("communication  ", concat(percent(summary.exposed_comm_share), " of the step time was spent waiting for it"));
  line("metrics        ", (options_.output / options_.name / "metrics.jsonl").string());
  out_ << std::flush;
}

}  // namespace tw::train
