// SPDX-License-Identifier: Apache-2.0
#include "full_disk.hpp"
#include "grouping_locale.hpp"
#include "support.hpp"

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tw/base/error.hpp>

namespace observers_test {

using tw::testing::world;

/// A state for hooks that only read.
struct Stage {
  explicit Stage(tw::train::Options chosen) : options(std::move(chosen)), sgd(model.tensors(), 0.1), state(world(), model, sgd, options) {
    state.figures = {"loss", "accuracy"};
  }
  tw::train::Options options;
  tw::train::Model model = tw::testing::make_mlp();
  torch::optim::SGD sgd;
  tw::train::State state;
};

tw::train::EpochReport epoch_report(int64_t epoch) {
  tw::train::EpochReport report;
  report.epoch = epoch;
  report.step = 8 * epoch;
  report.train_loss = 0.5;
  report.validation = {{"loss", 0.4}, {"accuracy", 0.875}};
  report.learning_rate = 0.1;
  report.train_time = tw::Seconds(2);
  report.samples = 1000;
  return report;
}

tw::train::Summary final_summary() {
  tw::train::Summary summary;
  summary.ranks = 2;
  summary.epochs = 1;
  summary.steps = 8;
  summary.parameters = 431080;
  summary.test_samples = 10000;
  summary.global_batch = 128;
  summary.test = {{"loss", 0.4}, {"accuracy", 0.8912}};
  summary.validation = {{"loss", 0.375}, {"accuracy", 0.9}};
  summary.best = 0.4;
  summary.best_epoch = 1;
  summary.samples_per_s = 7480;
  summary.exposed_comm_share = 0.05;
  summary.waited_for_data_share = 0.01;
  summary.slow_rank = tw::train::SlowRank{.rank = 1, .host = "node-7", .share = 0.25};
  summary.train_time = tw::Seconds(16);
  constexpr int64_t mib = int64_t{1} << 20;
  summary.memory = {{{{2 * mib, 2 * mib, 4 * mib, 0, 3 * mib}}, "backward", 5}, {{{2 * mib, 2 * mib, 4 * mib, 0, 7 * mib}}, "update", 6}};
  return summary;
}

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(MetricsLog, WritesEpochsAndTheSummary) {
  Stage stage(tw::testing::quick("observers"));
  for (int run = 0; run < 2; ++run) {  // the second replaces the first
    tw::train::MetricsLog log(stage.options);
    log.on_start(stage.state);
    log.on_end_epoch(stage.state, epoch_report(1));
    log.on_end(stage.state, final_summary());
  }
  const auto json = lines_of(stage.options.folder() / "metrics.jsonl");
  ASSERT_EQ(json.size(), 2U);
  const auto epoch = nlohmann::json::parse(json[0]);
  EXPECT_EQ(epoch["event"], "epoch");
  EXPECT_EQ(epoch["validation_accuracy"], 0.875);
  const auto summary = nlohmann::json::parse(json[1]);
  EXPECT_EQ(summary["event"], "summary");
  EXPECT_EQ(summary["test_accuracy"], 0.8912);
  EXPECT_EQ(summary["validation_accuracy"], 0.9);
  EXPECT_EQ(summary["samples_per_s"], 7480);
  EXPECT_EQ(summary["exposed_comm_share"], 0.05);
  EXPECT_EQ(summary["slow_rank"], (nlohmann::json{{"rank", 1}, {"host", "node-7"}, {"share", 0.25}}));
  EXPECT_EQ(summary["ranks"], 2);
  ASSERT_EQ(summary["memory"].size(), 2U);
  EXPECT_EQ(summary["memory"][1], (nlohmann::json{{"rank", 1},
                                                  {"during", "update"},
                                                  {"step", 6},
                                                  {"parameters_bytes", 2 << 20},
                                                  {"gradients_bytes", 2 << 20},
                                                  {"optimizer_bytes", 4 << 20},
                                                  {"buffers_bytes", 0},
                                                  {"activations_bytes", 7 << 20},
                                                  {"bytes", 15 << 20}}));
  EXPECT_EQ(lines_of(stage.options.folder() / "metrics.csv"),
            (std::vector<std::string>{"epoch,step,train_loss,validation_loss,validation_accuracy,learning_rate,train_time_s,samples",
                                      "1,8,0.5,0.4,0.875,0.1,2.0,1000"}));
}

TEST(MetricsLog, WritesPlainNumbersAndQuotedNamesUnderEveryLocale) {
  const tw::testing::GroupingLocale odd;
  Stage stage(tw::testing::quick("odd_locale"));
  stage.state.figures = {"loss", "top 1, of \"all\""};
  tw::train::MetricsLog log(stage.options);
  log.on_start(stage.state);
  auto report = epoch_report(1000);
  report.samples = 1234567;
  report.validation = {{"loss", 1234.5}, {"top 1, of \"all\"", 0.25}};
  log.on_end_epoch(stage.state, report);
  EXPECT_EQ(lines_of(stage.options.folder() / "metrics.csv"),
            (std::vector<std::string>{"epoch,step,train_loss,validation_loss,\"validation_top 1, of \"\"all\"\"\",learning_rate,train_time_s,samples",
                                      "1000,8000,0.5,1234.5,0.25,0.1,2.0,1234567"}));
}

TEST(Trainer, RefusesMetricsThatFilesCannotName) {
  Stage stage(tw::testing::quick("metric_names"));
  const auto data = tw::testing::rows(4);
  for (const char* name : {"loss", "accuracy", "\xff", "two\nlines", ""}) {
    auto objective = tw::train::classification();
    objective.metrics.push_back({name, false, objective.metrics[0].sum});
    EXPECT_THROW(tw::train::Trainer(world(), stage.model, stage.sgd, objective, data, data, stage.options), tw::ContractError) << name;
  }
}

struct MovesElsewhere : tw::train::Hook {
  void on_update(tw::train::State&) override { std::filesystem::current_path(std::filesystem::temp_directory_path()); }
};

TEST(Trainer, KeepsItsFolderWhenTheProgramChangesItsOwn) {
  const auto before = std::filesystem::current_path();
  const auto here = std::filesystem::path(testing::TempDir()) / "tw_train" / "moves";
  std::filesystem::remove_all(here);
  std::filesystem::create_directories(here);
  std::filesystem::current_path(here);
  auto options = tw::testing::quick("moves");
  options.output = "relative";
  options.epochs = 2;
  options.checkpoint.every_epochs = 1;
  Stage stage(options);
  const auto data = tw::testing::rows(8);
  tw::train::Trainer trainer(world(), stage.model, stage.sgd, tw::train::classification(), data, data, options, &data);
  tw::train::MetricsLog log(options);
  MovesElsewhere moves;
  trainer.add(log);
  trainer.add(moves);
  (void)trainer.run();
  std::filesystem::current_path(before);
  const auto folder = here / options.folder();
  for (const char* name : {"checkpoints/step_00000001", "checkpoints/step_00000002", "best", "best.safetensors", "metrics.csv"}) {
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  }
}

TEST(MetricsLog, GoesOnBehindTheStepThatIsResumed) {
  Stage stage(tw::testing::quick("resumed_log"));
  {
    tw::train::MetricsLog log(stage.options);
    log.on_start(stage.state);
    for (int64_t epoch = 1; epoch <= 3; ++epoch) log.on_end_epoch(stage.state, epoch_report(epoch));
    log.on_end(stage.state, final_summary());
  }
  stage.state.step = 17;  // in the third epoch
  tw::train::MetricsLog log(stage.options);
  log.on_start(stage.state);
  auto not_evaluated = epoch_report(3);
  not_evaluated.validation = {};
  not_evaluated.train_loss = std::numeric_limits<double>::quiet_NaN();
  log.on_end_epoch(stage.state, not_evaluated);
  const auto json = lines_of(stage.options.folder() / "metrics.jsonl");
  const auto csv = lines_of(stage.options.folder() / "metrics.csv");
  ASSERT_EQ(json.size(), 3U);
  ASSERT_EQ(csv.size(), 4U);
  EXPECT_EQ(nlohmann::json::parse(json[1])["epoch"], 2);
  EXPECT_EQ(csv[2], "2,16,0.5,0.4,0.875,0.1,2.0,1000");
  EXPECT_EQ(csv[3], "3,24,,,,0.1,2.0,1000");
}

TEST(MetricsLog, GoesOnWhenTheDiskIsFullNoLonger) {
  Stage stage(tw::testing::quick("full_log"));
  tw::train::MetricsLog log(stage.options);
  log.on_start(stage.state);
  log.on_end_epoch(stage.state, epoch_report(1));
  {
    const tw::testing::FullDisk full(1);
    for (int64_t epoch = 2; epoch <= 3; ++epoch) log.on_end_epoch(stage.state, epoch_report(epoch));
  }
  log.on_end_epoch(stage.state, epoch_report(4));
  log.on_end(stage.state, final_summary());
  const auto json = lines_of(stage.options.folder() / "metrics.jsonl");
  ASSERT_GE(json.size(), 3U);
  EXPECT_EQ(nlohmann::json::parse(json.front())["epoch"], 1);
  EXPECT_EQ(nlohmann::json::parse(json[json.size() - 2])["epoch"], 4);
  EXPECT_EQ(nlohmann::json::parse(json.back())["event"], "summary");
  EXPECT_EQ(lines_of(stage.options.folder() / "metrics.csv").back(), "4,32,0.5,0.4,0.875,0.1,2.0,1000");
}

TEST(MetricsLog, NamesTheFolderThatCannotBeMade) {
  const auto file = std::filesystem::path(testing::TempDir()) / "tw_a_file";
  std::ofstream(file) << "in the way";
  tw::train::Options options;
  options.output = file;
  EXPECT_THROW(tw::train::MetricsLog{options}, tw::FileError);
}

TEST(Console, ShowsProgressAndASummary) {
  auto options = tw::testing::quick("lenet");
  options.name = "lenet";
  Stage stage(options);
  std::ostringstream out;
  tw::train::Console console(out, /*terminal=*/false, "images");
  stage.state.epoch_samples = 1000;
  console.on_start_epoch(stage.state);
  stage.state.mean_loss = 0.5;
  for (stage.state.samples = 100; stage.state.samples <= 1000; stage.state.samples += 100) console.on_update(stage.state);
  console.on_end_epoch(stage.state, epoch_report(1));
  console.on_end(stage.state, final_summary());
  const std::string text = out.str();
  for (const char* expected :
       {"epoch 1/1  50%", "loss 0.500  validation accuracy 87.50 %, loss 0.400", "lenet: done", "test accuracy  89.12 % of 10,000 images, loss 0.400",
        "validation     accuracy 90.00 %, loss 0.375", "431,080 parameters, 1 epochs, 8 steps of 128 images on 2 ranks, in 0:16", "7.48k images/s",
        "5.00 % of the step time was spent waiting for it, 1.00 % waiting for data",
        "at most 15.0 MiB, on rank 1 (update): parameters 2.0, gradients 2.0, optimizer 4.0, buffers 0.0, activations 7.0",
        "rank 1 on node-7: the others waited 25.00 % of the time for it"}) {
    EXPECT_NE(text.find(expected), std::string::npos) << expected << " in:\n" << text;
  }
}

TEST(Console, ListsTheFilesThatThereAre) {
  auto options = tw::testing::quick("listed");
  options.checkpoint.every_epochs = 1;
  std::filesystem::remove_all(options.folder());
  Stage stage(options);
  const auto files = [&] {
    std::ostringstream out;
    tw::train::Console(out, /*terminal=*/false).on_end(stage.state, final_summary());
    const size_t at = out.str().find("files");
    return at == std::string::npos ? "" : out.str().substr(out.str().find(": ", at) + 2);
  };
  EXPECT_EQ(files(), "");
  std::filesystem::create_directories(options.folder() / "checkpoints");
  std::ofstream(options.folder() / "metrics.csv") << "epoch";
  EXPECT_EQ(files(), "metrics.csv\n");
  std::filesystem::create_directories(options.folder() / "checkpoints" / "step_00000001");
  EXPECT_EQ(files(), "metrics.csv, checkpoints\n");
  std::filesystem::create_directories(options.folder() / "best" / "step_00000001");
  std::ofstream(options.folder() / "best.safetensors") << "tensors";
  EXPECT_EQ(files(), "metrics.csv, checkpoints, best, best.safetensors\n");
  stage.options.checkpoint.every_epochs = 0;  // existing files are an earlier run's
  EXPECT_EQ(files(), "metrics.csv\n");
}

TEST(Console, ShowsNoBestEvaluationWhereThereIsNone) {
  Stage stage(tw::testing::quick("no_best"));
  std::ostringstream out;
  auto summary = final_summary();
  summary.best_epoch = 0;
  tw::train::Console(out, /*terminal=*/false).on_end(stage.state, summary);
  EXPECT_EQ(out.str().find("best "), std::string::npos) << out.str();
}

TEST(Console, SaysWhyARunEndedAndHowToGoOn) {
  Stage stage(tw::testing::quick("ended"));
  std::ostringstream out;
  tw::train::Console console(out, /*terminal=*/false);
  auto summary = final_summary();
  summary.stopped_because = "SIGTERM";
  summary.finished = false;
  summary.test = {{"loss", 1.5e-5}, {"mae", 0.002}};
  console.on_end(stage.state, summary);
  for (const char* expected : {"ended: SIGTERM", "pass --resume", "test           10,000 samples, loss 1.50e-05"}) {
    EXPECT_NE(out.str().find(expected), std::string::npos) << expected << " in:\n" << out.str();
  }
}

}  // namespace observers_test
