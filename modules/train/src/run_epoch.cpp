// SPDX-License-Identifier: Apache-2.0
#include <tw/data_parallel/synchronize.hpp>

#include "evaluate.hpp"
#include "run.hpp"

namespace tw::train {

void Trainer::Run::train_epoch() {
  state_->epoch = progress_.epoch;
  state_->samples = progress_.consumed;
  loader_->begin_epoch(progress_.epoch - 1, progress_.consumed);
  state_->epoch_samples = epoch_end();
  notify(&Hook::on_start_epoch);
  const Stopwatch watch;
  const int64_t samples_before = progress_.consumed;
  while (progress_.consumed < state_->epoch_samples && !stopped()) {
    update();
    if (snapshots_) {
      snapshots_->poll();
      best_model_->poll();
    }
    const int64_t every = options_.checkpoint.every_steps;
    const bool epoch_ends = progress_.consumed >= state_->epoch_samples;
    if (!stopped() && !epoch_ends && every > 0 && progress_.step % every == 0) save();
  }
  ranks_.all.barrier();  // the epoch lasts as long as its slowest rank
  const Seconds time = watch.elapsed();
  trained_samples_ += progress_.consumed - samples_before;
  train_time_ += time;
  if (progress_.consumed >= state_->epoch_samples) end_epoch(time);
}

void Trainer::Run::end_epoch(Seconds time) {
  const Stopwatch watch;
  const Outcome outcome = strategy_->meet();
  const Seconds meeting = watch.elapsed();  // counts as training
  time += meeting;
  train_time_ += meeting;
  if (outcome.non_finite) react();
  act_on(outcome);
  EpochReport report;
  report.epoch = progress_.epoch;
  report.step = progress_.step;
  report.learning_rate = state_->learning_rate;
  report.train_time = time;
  report.samples = state_->epoch_samples;
  const std::vector<double> losses = sum_over_ranks(ranks_.samples, {loss_.sum, loss_.weight});
  report.train_loss = losses[0] / losses[1];
  const bool last = progress_.epoch == options_.epochs;
  if (validation_ != nullptr && validation_->size() > 0 && (last || progress_.epoch % options_.evaluate_every == 0)) {
    progress_.validation = report.validation = evaluate(*validation_);
    report.best = best_.judge(report, progress_);
    if (report.best && snapshots_) keep_best();
  }
  loss_ = {};
  progress_.consumed = 0;
  ++progress_.epoch;
  stop_out_of_patience();
  notify(&Hook::on_end_epoch, report);
  const auto is_due = [](int64_t every, int64_t number) { return every > 0 && number % every == 0; };
  const bool due = is_due(options_.checkpoint.every_epochs, report.epoch) || is_due(options_.checkpoint.every_steps, report.step);
  if (!last && !stopped() && due) save();
}

Figures Trainer::Run::evaluate(const Dataset& dataset) {
  TW_EXPECTS(!earlier_, "run() has not yet loaded the checkpoint that it resumes: evaluate in a hook, or after run()");
  return end_on_all_ranks([&] {
    synchronize(ranks_.samples, model_.buffers);
    watch_memory("evaluation");
    const int64_t rows = options_.rows_of_an_evaluation(progress_.global_batch, ranks_.samples.size());
    Figures figures = train::evaluate(ranks_, model_, objective_, dataset, rows, passes_in_step());
    count_memory();
    return figures;
  });
}

void Trainer::Run::keep_best() {
  watch_memory("checkpoint");
  snapshots_->settle();  // its last step is then the one from which a killed run would resume
  best_model_->keep(progress_, *strategy_, *snapshots_);
  count_memory();
}

void Trainer::Run::stop_out_of_patience() {
  const std::string why = best_.why_out_of_patience(progress_);
  if (why.empty() || stopped()) return;
  stopped_because_ = why;
  progress_.finished = true;
}

void Trainer::Run::save() {
  const auto begin = std::chrono::steady_clock::now();
  watch_memory("checkpoint");
  rates_->keep_in(progress_);
  best_model_->settle();
  snapshots_->save(progress_, loss_, scaling_, *strategy_);
  count_memory();
  span("checkpoint", begin);
}

}  // namespace tw::train
