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
  return plain && name != "." && name != ".." ? "" : "must be the name of one folder, without \"/\" and control characters";
}

namespace {

// As the name of one folder.
std::string nearest_run_name(std::string name) {
  for (char& c : name) {
    if (!why_no_name({c}).empty() && c != '.') c = '_';
  }
  return why_no_name(name).empty() ? name : "run";
}

}  // namespace

void visit(CheckpointPolicy& policy, OptionVisitor& visitor) {
  visitor.field("every_epochs", policy.every_epochs, count_from(0),
                {.meaning = "between two checkpoints; 0: none for this reason", .unit = "epochs"});
  visitor.field("every_steps", policy.every_steps, count_from(0), {.meaning = "between two checkpoints; 0: none for this reason", .unit = "updates"});
  visitor.field("keep", policy.keep, count_from(1), {.meaning = "how many of the newest checkpoints stay"});
}

void visit(EarlyStopping& stopping, OptionVisitor& visitor) {
  visitor.field("patience", stopping.patience, count_from(0),
                {.meaning = "without a better value before the run ends; 0: it goes on", .unit = "evaluations"});
  visitor.field("min_delta", stopping.min_delta, {.least = 0}, {.meaning = "by how much a better value is better"});
  visitor.field("watch", stopping.watch,
                {.meaning = "loss, or a metric on the validation set: accuracy of images, mae of regression; the best model is kept by it"});
}

void visit(EvaluateOptions& evaluate, OptionVisitor& visitor) {
  visitor.field("batch_size", evaluate.batch_size, count_from(0, most_samples_of_a_batch),
                {.meaning = "of one rank in a forward pass of an evaluation; 0: the number of a training pass", .unit = "samples"});
}

void visit(Options& options, OptionVisitor& visitor) {
  const std::vector<std::pair<std::string, Uneven>> unevens{{"exact", Uneven::exact}, {"drop", Uneven::drop}, {"pad", Uneven::pad}};
  const std::vector<std::pair<std::string, NonFinite>> reactions{
      {"stop", NonFinite::stop}, {"skip", NonFinite::skip}, {"restore", NonFinite::restore}};
  visitor.field("name", options.name, {.meaning = "of the run, whose folder is called so"});
  visitor.field("output", options.output, {.meaning = "the folder of all runs", .may_differ = true});
  visitor.field("epochs", options.epochs, count_from(0), {.meaning = "how often the training samples are gone through"});
  visitor.field("batch_size", options.batch_size, count_from(1, most_samples_of_a_batch),
                {.meaning = "of one rank in an update", .unit = "samples", .where = {{"global_batch", {"0"}}}});
  visitor.field("global_batch", options.global_batch, count_from(0, most_samples_of_a_batch),
                {.meaning = "of all ranks in an update; 0: batch_size times the ranks. A resumed run keeps its own", .unit = "samples"});
  visitor.field("accumulation", options.accumulation, count_from(1),
                {.meaning = "that share the samples of an update, to save memory", .unit = "passes"});
  visitor.field("max_gradient_norm", options.max_gradient_norm, {.least = 0},
                {.meaning = "of all gradients of the model together, to which they are scaled down before an update; 0: they are not"});
  visitor.field("seed", options.seed, count_from(0, any_count), {.meaning = "of the order of samples, of augmentation and of what the model draws"});
  visitor.field("uneven", options.uneven, unevens, {.meaning = "what becomes of samples that ranks cannot share evenly"});
  visitor.field("drop_last", options.drop_last, {.meaning = "leave out an epoch's last update where it would have fewer samples than the others"});
  visitor.field("evaluate_every", options.evaluate_every, count_from(1),
                {.meaning = "between two evaluations on the validation set", .unit = "epochs"});
  visitor.group("evaluate", options.evaluate);
  visitor.field("non_finite", options.non_finite, reactions, {.meaning = "what follows a loss or a gradient that is not finite"});
  visitor.field("loader_workers", options.loader_workers, count_from(0, LoaderOptions::most_workers),
                {.meaning = "that prepare batches", .unit = "threads", .may_differ = true});
  visitor.group("schedule", options.schedule);
  visitor.group("strategy", options.strategy);
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
  std::ranges::move(strategy.contradictions(), std::back_inserter(problems));
  std::ranges::move(precision.contradictions(), std::back_inserter(problems));
  const bool keeps_residuals = strategy.compression == CompressionKind::top_k || strategy.compression == CompressionKind::power_sgd;
  if (precision.scales() && keeps_residuals) {
    problems.push_back(
        {"strategy.compression", "keeps what it leaves out of gradients, which is of no use when the loss scale has changed", "\"none\""});
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
  TW_EXPECTS(uneven == Uneven::exact || pass % ranks == 0, "where samples are dropped or padded, the ", pass, " of a pass (global batch ", samples,
             ", accumulation ", accumulation, ") must be shared evenly by the ", ranks, " ranks");
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
