// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/train/options.hpp>
#include <tw/train/report.hpp>

#include <algorithm>
#include <iterator>
#include <limits>

namespace tw::train {

std::string why_no_name(const std::string& name) {
  if (name.empty()) return "must not be empty";
  const bool plain = std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '/'; });
  return plain && name != "." && name != ".." ? "" : "must be the name of one folder, without \"/\" or control characters";
}

namespace {

// Makes `name` valid as the name of a folder.
std::string nearest_run_name(std::string name) {
  for (char& c : name) {
    if (!why_no_name({c}).empty() && c != '.') c = '_';
  }
  return why_no_name(name).empty() ? name : "run";
}

}  // namespace

void visit(CheckpointPolicy& policy, OptionVisitor& visitor) {
  visitor.field("every_epochs", policy.every_epochs, at_least(0),
                {.meaning = "epochs between two checkpoints; 0: no checkpoints by epochs", .unit = "epochs"});
  visitor.field("every_steps", policy.every_steps, at_least(0),
                {.meaning = "updates between two checkpoints; 0: no checkpoints by updates", .unit = "updates"});
  visitor.field("keep", policy.keep, at_least(1), {.meaning = "number of newest checkpoints that are kept"});
}

void visit(EarlyStopping& stopping, OptionVisitor& visitor) {
  visitor.field("patience", stopping.patience, at_least(0),
                {.meaning = "evaluations without a better value before the run ends; 0: no early end", .unit = "evaluations"});
  visitor.field("min_delta", stopping.min_delta, {.least = 0}, {.meaning = "smallest improvement that counts as a better value"});
  visitor.field("watch", stopping.watch,
                {.meaning = "loss, or a metric on the validation set, by which the best model is chosen: accuracy for images, mae for regression"});
}

void visit(EvaluateOptions& evaluate, OptionVisitor& visitor) {
  visitor.field("batch_size", evaluate.batch_size, at_least(0, max_samples_of_a_batch),
                {.meaning = "samples of one rank in a forward pass of an evaluation; 0: the number in a training pass", .unit = "samples"});
}

void visit(ClipOptions& clip, OptionVisitor& visitor) {
  visitor.field("norm", clip.norm, {.least = 0},
                {.meaning = "maximum norm of all gradients together; larger gradients are scaled down before an update; 0: no limit"});
}

void visit(Options& options, OptionVisitor& visitor) {
  const std::vector<std::pair<std::string, Uneven>> unevens{{"exact", Uneven::exact}, {"drop", Uneven::drop}, {"pad", Uneven::pad}};
  const std::vector<std::pair<std::string, NonFinite>> reactions{
      {"stop", NonFinite::stop}, {"skip", NonFinite::skip}, {"restore", NonFinite::restore}};
  visitor.field("name", options.name, {.meaning = "name of the run and of its folder"});
  visitor.field("output", options.output, {.meaning = "folder of all runs", .may_differ = true});
  visitor.field("epochs", options.epochs, at_least(0), {.meaning = "number of passes over the training samples"});
  visitor.field("batch_size", options.batch_size, at_least(1, max_samples_of_a_batch),
                {.meaning = "samples of one rank in an update", .unit = "samples", .applies_if = {{"global_batch", {"0"}}}});
  visitor.field(
      "global_batch", options.global_batch, at_least(0, max_samples_of_a_batch),
      {.meaning = "samples of all ranks in an update; 0: batch_size times the ranks. A resumed run keeps its first value", .unit = "samples"});
  visitor.field("accumulation", options.accumulation, at_least(1),
                {.meaning = "passes that share the samples of an update, to save memory", .unit = "passes"});
  visitor.field("seed", options.seed, at_least(0, any_count),
                {.meaning = "seed of the order of samples, of augmentation and of the model's random numbers"});
  visitor.field("uneven", options.uneven, unevens, {.meaning = "treatment of samples that ranks cannot share evenly"});
  visitor.field("drop_last", options.drop_last, {.meaning = "skip an epoch's last update if it would have fewer samples than the others"});
  visitor.field("evaluate_every", options.evaluate_every, at_least(1),
                {.meaning = "epochs between two evaluations on the validation set", .unit = "epochs"});
  visitor.group("evaluate", options.evaluate);
  visitor.field("non_finite", options.non_finite, reactions, {.meaning = "reaction to a loss or a gradient that is not finite"});
  visitor.field("loader_workers", options.loader_workers, at_least(0, LoaderOptions::max_workers),
                {.meaning = "threads that prepare batches", .unit = "threads", .may_differ = true});
  visitor.group("schedule", options.schedule);
  visitor.group("clip", options.clip);
  visitor.group("shard", options.shard);
  visitor.group("replicas", options.replicas);
  visitor.group("precision", options.precision);
  visitor.group("checkpoint", options.checkpoint);
  visitor.group("early_stopping", options.early_stopping);
}

std::vector<Problem> Options::contradictions() const {
  std::vector<Problem> problems;
  if (const std::string why = why_no_name(name); !why.empty()) problems.push_back({"name", why, '"' + nearest_run_name(name) + '"'});
  if (non_finite == NonFinite::restore && checkpoint.every_epochs == 0 && checkpoint.every_steps == 0) {
    problems.push_back({"non_finite", "is \"restore\", but no checkpoints are kept", "\"skip\", or checkpoint.every_epochs = 1"});
  }
  if (accumulation > 0 && global_batch % accumulation != 0) {
    const int64_t nearest = divide_up(global_batch, accumulation) * accumulation;
    problems.push_back({"global_batch", concat("must be a multiple of accumulation = ", accumulation, ", got ", global_batch), concat(nearest)});
  }
  std::ranges::move(replicas.contradictions(), std::back_inserter(problems));
  std::ranges::move(precision.contradictions(), std::back_inserter(problems));
  if (precision.scales() && replicas.keeps_residuals()) {
    problems.push_back(
        {"replicas.compression", "keeps the parts of gradients that it does not send, which are invalid after the loss scale changes", "\"none\""});
  }
  return problems;
}

void Options::validate() const {
  expect_none(out_of_bounds(*this));
  expect_none(contradictions());
}

int64_t Options::samples_of_a_pass(int64_t samples, int ranks) const {
  TW_EXPECTS(samples % accumulation == 0, "accumulation must divide the global batch of ", samples, ", got ", accumulation);
  const int64_t pass = samples / accumulation;
  TW_EXPECTS(uneven == Uneven::exact || pass % ranks == 0, "with uneven = drop or pad, the ", pass, " samples of a pass (global batch ", samples,
             ", accumulation ", accumulation, ") must divide evenly among the ", ranks, " ranks");
  return pass;
}

int64_t Options::rows_of_a_pass(int64_t samples, int ranks) const { return divide_up(samples_of_a_pass(samples, ranks), ranks); }

int64_t Options::rows_of_an_evaluation(int64_t samples, int ranks) const {
  return evaluate.batch_size > 0 ? evaluate.batch_size : rows_of_a_pass(samples, ranks);
}

double figure(const Figures& figures, const std::string& name) {
  for (const auto& [key, value] : figures) {
    if (key == name) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace tw::train
