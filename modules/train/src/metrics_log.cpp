// SPDX-License-Identifier: Apache-2.0
#include <tw/base/concat.hpp>
#include <tw/base/csv_field.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/base/log.hpp>
#include <tw/train/metrics_log.hpp>

#include <cmath>
#include <nlohmann/json.hpp>

namespace tw::train {
namespace {

// The lines of `path` that `keep` accepts; none without a file.
template <class Keep>
std::vector<std::string> kept_lines(const std::filesystem::path& path, Keep keep) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (keep(line)) lines.push_back(line);
  }
  return lines;
}

void begin(std::ofstream& out, const std::filesystem::path& path, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  replace_file(path, text);  // atomic: a full disk does not lose the kept lines
  out.open(path, std::ios::app);
  if (!out) throw FileError(path, 0, "cannot be written");
}

// Whether the line is an epoch that a resumed run keeps; everything after `step` is written again.
bool is_epoch_until(const std::string& line, int64_t step) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.value("event", "") == "epoch" && json.value("step", step + 1) <= step;
}

// With full precision; empty for NaN.
std::string number(double value) { return std::isnan(value) ? "" : nlohmann::json(value).dump(); }

}  // namespace

MetricsLog::MetricsLog(const Options& options) : folder_(absolute_path(options.folder())) {
  std::error_code code;
  std::filesystem::create_directories(folder_, code);
  if (code) throw FileError(folder_, 0, "cannot be created: " + code.message());
}

void MetricsLog::on_start(State& state) {
  const bool fresh = state.step == 0;
  const auto json = kept_lines(folder_ / "metrics.jsonl", [&](const std::string& line) { return !fresh && is_epoch_until(line, state.step); });
  begin(json_, folder_ / "metrics.jsonl", json);

  std::string header = "epoch,step,train_loss";
  for (const std::string& name : state.figures) header += ',' + csv_field("validation_" + name);
  std::vector<std::string> csv = kept_lines(folder_ / "metrics.csv", [](const std::string&) { return true; });
  csv.resize(std::min(csv.size(), json.size() + 1));  // one line per kept epoch
  if (csv.empty()) csv.emplace_back();
  csv.front() = header + ",learning_rate,train_time_s,samples";
  begin(csv_, folder_ / "metrics.csv", csv);
}

// If the disk was full for a while, later lines are written again.
void MetricsLog::keep_good(std::ofstream& out) {
  if (out) return;
  if (!complained_) log_error("metrics cannot be written to ", folder_.string(), "; training continues");
  complained_ = true;
  out.clear();
}

void MetricsLog::on_end_epoch(State& state, const EpochReport& report) {
  nlohmann::ordered_json json{{"event", "epoch"}, {"epoch", report.epoch}, {"step", report.step}, {"train_loss", report.train_loss}};
  for (const auto& [name, value] : report.validation) json["validation_" + name] = value;
  json["learning_rate"] = report.learning_rate;
  json["train_time_s"] = report.train_time.count();
  json["samples"] = report.samples;
  json["best"] = report.best;
  json_ << json << std::endl;
  keep_good(json_);

  // Not streamed: std::locale might group digits.
  std::string row = std::to_string(report.epoch) + ',' + std::to_string(report.step) + ',' + number(report.train_loss);
  for (const std::string& name : state.figures) row += ',' + number(figure(report.validation, name));
  row += ',' + number(report.learning_rate) + ',' + number(report.train_time.count()) + ',' + std::to_string(report.samples);
  csv_ << row << std::endl;
  keep_good(csv_);
}

void MetricsLog::on_end(State& /*state*/, const Summary& summary) {
  nlohmann::ordered_json json{{"event", "summary"}};
  for (const auto& [name, value] : summary.validation) json["validation_" + name] = value;
  for (const auto& [name, value] : summary.test) json["test_" + name] = value;
  json["samples_per_s"] = summary.samples_per_s;
  json["bytes_per_step"] = summary.bytes_per_step;
  json["exposed_comm_share"] = summary.exposed_comm_share;
  json["waited_for_data_share"] = summary.waited_for_data_share;
  if (summary.slow_rank) {
    json["slow_rank"] = {{"rank", summary.slow_rank->rank}, {"host", summary.slow_rank->host}, {"share", summary.slow_rank->share}};
  }
  json["ranks"] = summary.ranks;
  json["epochs"] = summary.epochs;
  json["steps"] = summary.steps;
  json["skipped_steps"] = summary.skipped_steps;
  json["overflowed_steps"] = summary.overflowed_steps;
  json["global_batch"] = summary.global_batch;
  json["parameters"] = summary.parameters;
  json["best"] = summary.best;
  json["best_epoch"] = summary.best_epoch;
  json["finished"] = summary.finished;
  json["stopped_because"] = summary.stopped_because;
  json["train_time_s"] = summary.train_time.count();
  json["memory"] = nlohmann::ordered_json::array();
  for (size_t rank = 0; rank < summary.memory.size(); ++rank) {
    const auto& [held, during, step] = summary.memory[rank];
    nlohmann::ordered_json& of_rank = json["memory"].emplace_back(nlohmann::ordered_json{{"rank", rank}, {"during", during}, {"step", step}});
    for (size_t use = 0; use < memory_uses; ++use) of_rank[concat(name_of(static_cast<MemoryUse>(use)), "_bytes")] = held.bytes[use];
    of_rank["bytes"] = held.together();
  }
  if (summary.servers) {
    json["pushes_per_s"] = summary.servers->pushes_per_s;
    json["pulls_per_s"] = summary.servers->pulls_per_s;
    json["waiting_for_servers_share"] = summary.servers->waiting_share;
    json["staleness"] = summary.servers->staleness;
  }
  json_ << json << std::endl;
  keep_good(json_);
}

}  // namespace tw::train
