// SPDX-License-Identifier: Apache-2.0
#include <tw/base/error.hpp>
#include <tw/train/metrics_log.hpp>

#include <nlohmann/json.hpp>

namespace tw::train {

MetricsLog::MetricsLog(const Options& options) {
  const auto folder = options.output / options.name;
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) throw FileError(folder, 0, "cannot be made: " + code.message());
  const auto path = folder / "metrics.jsonl";
  out_.open(path, std::ios::trunc);
  if (!out_) throw FileError(path, 0, "cannot be written");
}

void MetricsLog::on_epoch_begin(int64_t /*epoch*/, int64_t /*samples*/) {}
void MetricsLog::on_step(const StepReport& /*report*/) {}

void MetricsLog::on_epoch_end(const EpochReport& report) {
  out_ << nlohmann::ordered_json{{"event", "epoch"},
                                 {"epoch", report.epoch},
                                 {"train_loss", report.train_loss},
                                 {"test_loss", report.test_loss},
                                 {"test_accuracy", report.test_accuracy},
                                 {"train_time_s", report.train_time.count()},
                                 {"samples", report.samples}}
       << std::endl;
}

void MetricsLog::on_end(const Summary& summary) {
  out_ << nlohmann::ordered_json{{"event", "summary"},
                                 {"test_accuracy", summary.test_accuracy},
                                 {"test_loss", summary.test_loss},
                                 {"samples_per_s", summary.samples_per_s},
                                 {"exposed_comm_share", summary.exposed_comm_share},
                                 {"ranks", summary.ranks},
                                 {"epochs", summary.epochs},
                                 {"steps", summary.steps},
                                 {"parameters", summary.parameters},
                                 {"train_time_s", summary.train_time.count()}}
       << std::endl;
}

}  // namespace tw::train
