// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

#include <c10/util/ScopeExit.h>
#include <c10/util/Type.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <exception>
#include <tw/base/contract.hpp>
#include <tw/base/log.hpp>
#include <tw/base/numbers.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>
#include <tw/comm/step_communicator.hpp>
#include <tw/mpi/error.hpp>
#include <tw/train/mixed_precision.hpp>
#include <typeinfo>

#include "agreed_options.hpp"
#include "batch_norms.hpp"
#include "data_identity.hpp"
#include "earlier_run.hpp"
#include "evaluate.hpp"
#include "progress_shard.hpp"
#include "same_data.hpp"
#include "server_figures.hpp"
#include "signals.hpp"
#include "slow_rank.hpp"

namespace tw::train {

Trainer::Run::Run(Mesh mesh, Model model, torch::optim::Optimizer& optimizer, Objective objective, const Dataset& train, const Dataset& test,
                  const Options& options, const Dataset* validation)
    : mesh_(std::move(mesh)),
      model_(std::move(model)),
      ranks_(ranks_of(mesh_, model_)),
      objective_(std::move(objective)),
      train_(train),
      test_(test),
      validation_(validation),
      rows_of_train_(train.size()),
      options_(agreed_options(ranks_.all, options, train, test, validation, objective_)),
      scaling_(options_.precision) {
  expect_parameters(ranks_, model_);
  agree_on_batch_norms(ranks_, model_);
  expect_same_data(ranks_, model_, "training", train_);
  if (validation_ != nullptr && validation_->size() > 0) expect_same_data(ranks_, model_, "validation", *validation_);
  if (test_.size() > 0) expect_same_data(ranks_, model_, "test", test_);
  model_.trained->set_replica(ranks_.samples.rank());
  const ComputeType compute = options_.precision.compute;
  model_ = on_all_ranks(ranks_.all, "choosing the dtype in which the model computes", [&] { return under_autocast(std::move(model_), compute); });
  objective_ = under_autocast(std::move(objective_), compute);
  progress_.global_batch = options_.global_batch > 0 ? options_.global_batch : options_.batch_size * ranks_.samples.size();
  progress_.seed = options_.seed;
  progress_.optimizer = c10::demangle(typeid(optimizer).name());
  if (keeps_checkpoints()) {
    lock_.emplace(ranks_.all, options_.folder());
    snapshots_.emplace(ranks_, model_, options_);
    best_model_.emplace(ranks_, model_, options_);
    const std::string identity = on_all_ranks(ranks_.all, "reading the data's content",
                                              [&] { return ranks_.all.rank() == 0 ? identity_of(train_, test_, validation_) : std::string(); });
    progress_.data = broadcast_string(ranks_.all, identity, Rank(0));
    earlier_ = earlier_run(*snapshots_, options_, progress_);
    if (earlier_) progress_.global_batch = earlier_->global_batch;
  }
  strategy_ = make_strategy({.ranks = ranks_,
                             .model = model_,
                             .optimizer = optimizer,
                             .shard = options_.shard,
                             .replicas = options_.replicas,
                             .arrival_order = earlier_ ? earlier_->arrival_order : std::vector<int64_t>(),
                             .on_communication = [this](const char* name, int64_t number, auto begin, auto end) {
                               if (tracing()) timeline_.add(Timeline::Row::communication, name, begin, end, number);
                             }});
  rates_.emplace(strategy_->optimizer());
  state_.emplace(ranks_.all, model_, strategy_->optimizer(), options_,
                 [this](double max_norm) { return strategy_->clip_gradients(max_norm, scaling_.scale()); });
  for (const Metric& metric : objective_.metrics) state_->figures.push_back(metric.name);
}

Trainer::Run::~Run() {
  if (tracing()) model_.trained->report_phases({});
}

std::vector<NamedShard> Trainer::Run::shards() const {
  std::vector<NamedShard> all = shards_of(model_, *strategy_);
  all.push_back(as_shard(progress_));
  all.push_back(rates_->shard());
  if (const auto scaling = scaling_.shard()) all.push_back(*scaling);
  return all;
}

void Trainer::Run::apply(const std::vector<NamedShard>& shards) {
  strategy_->apply(shards);
  take_shard(progress_, shards);
  rates_->take_shard(shards);
  scaling_.take_shard(shards);
}

void Trainer::Run::begin_after(int64_t epochs) {
  TW_EXPECTS(!earlier_ && epochs >= 0, "begin_after() needs a run that resumes no checkpoint, and a number of epochs of at least 0, got ", epochs);
  begin_after_ = epochs;
}

Summary Trainer::Run::run() {
  const Signals signals;
  memory_ = std::make_unique<MemoryAccount>(model_.device().type(), tracing());
  const auto no_longer = c10::make_scope_exit([this] { memory_.reset(); });
  const auto as_found = c10::make_scope_exit([this] { rates_->restore(); });
  make_loader();
  if (tracing()) trace();
  begin();
  model_.set_training(true);
  std::exception_ptr unwritten;
  Summary summary = end_on_all_ranks([&] {
    notify(&Hook::on_start);
    while (progress_.epoch <= options_.epochs && !stopped()) train_epoch();
    return finish(unwritten);
  });
  if (unwritten) std::rethrow_exception(unwritten);
  return summary;
}

void Trainer::Run::revoke() const {
  std::vector<const Communicator*> all = model_.trained->communicators();
  for (const auto& [name, norm] : batch_norms_of(*model_.trained)) all.push_back(&norm->comm());
  all.push_back(&ranks_.all);
  for (const Communicator* each : all) {
    if (!each->revoked()) each->revoke(message_of_current_exception());
  }
}

void Trainer::Run::trace() {
  timeline_.begin(ranks_.all, options_.trace);
  model_.trained->report_phases(
      [this](const char* name, auto begin, auto end) { timeline_.add(Timeline::Row::compute, name, begin, end, progress_.step); });
}

void Trainer::Run::make_loader() {
  const int64_t batch = options_.samples_of_a_pass(progress_.global_batch, ranks_.samples.size());
  const SamplerOptions sampler{.seed = static_cast<uint64_t>(options_.seed), .uneven = options_.uneven};
  const bool looks = model_.trained->needs_samples();
  const Dataset& seen = looks ? train_ : static_cast<const Dataset&>(rows_of_train_);
  loader_.emplace(seen, DistributedSampler(static_cast<size_t>(train_.size()), ranks_.samples.size(), ranks_.samples.rank(), sampler),
                  LoaderOptions{.global_batch = batch,
                                .workers = looks ? static_cast<int>(options_.loader_workers) : 0,
                                .augmentation = looks ? options_.augmentation : Augmentation(),
                                .seed = static_cast<uint64_t>(options_.seed),
                                .device = model_.device()});
  TW_EXPECTS(loader_->steps() > 0, "dropping the samples that cannot be shared evenly leaves none of ", train_.size(), " samples for ",
             ranks_.samples.size(), " ranks");
  if (progress_.global_batch > train_.size() && ranks_.all.rank() == 0) {
    log_warning("the global batch of ", progress_.global_batch, " is more than the ", train_.size(), " training samples: an epoch is one update");
  }
  const int64_t steps = divide_up(loader_->steps(), options_.accumulation);
  const int64_t ranks = ranks_.samples.size();
  const int64_t samples = options_.uneven == Uneven::pad    ? divide_up(train_.size(), ranks) * ranks
                          : options_.uneven == Uneven::drop ? train_.size() / ranks * ranks
                                                            : train_.size();
  length_ = {options_.drop_last ? samples / progress_.global_batch : steps, options_.epochs, progress_.global_batch};
  TW_EXPECTS(length_.steps_per_epoch > 0, "drop_last leaves no update of ", train_.size(), " samples: the global batch is ", progress_.global_batch);
}

int64_t Trainer::Run::epoch_end() const {
  const int64_t end = loader_->end();
  return options_.drop_last ? std::max(progress_.consumed, end - end % progress_.global_batch) : end;
}

void Trainer::Run::begin() {
  if (earlier_) {
    resume();
    earlier_.reset();
  } else if (snapshots_) {
    snapshots_->remove_all();
    best_model_->remove_all();
  }
  if (begin_after_ > 0) {
    progress_.epoch = begin_after_ + 1;
    progress_.step = begin_after_ * length_.steps_per_epoch;
  }
  state_->step = first_step_ = progress_.step;
}

void Trainer::Run::resume() {
  const Progress now = progress_;
  progress_ = snapshots_->restore(earlier_->step, *strategy_);
  best_model_->resume(progress_);
  progress_.finished = false;
  progress_.data = now.data;
  progress_.optimizer = now.optimizer;
  const auto mine = [this](const std::vector<double>& sums) { return share_of(sums, ranks_.samples.rank(), ranks_.samples.size()); };
  loss_ = {.sum = mine(progress_.loss_sums), .weight = mine(progress_.loss_samples)};
  rates_->resume(progress_);
  scaling_.restore(progress_, ranks_.samples.rank(), ranks_.samples.size(), has_layout_of(progress_, ranks_, *strategy_));
  const std::string other_watch = best_.begin_another_watch(progress_);
  stop_out_of_patience();
  if (progress_.epoch <= options_.epochs && !progress_.finished) progress_.test.clear();  // of the model after fewer epochs
  if (ranks_.all.rank() != 0) return;
  const auto scaling = scaling_.state();
  log_info("resumed from the checkpoint of step ", progress_.step, ", epoch ", progress_.epoch, ", in ", (options_.folder() / "checkpoints").string(),
           scaling ? concat(", with loss scale ", scaling->scale) : "");
  if (!other_watch.empty()) log_info(other_watch);
  if (!names_validation(earlier_->data)) {
    log_warning("an older version wrote the checkpoint, and did not record its validation data: whether these are the same is not checked");
  }
  const int64_t of_options = options_.batch_size * ranks_.samples.size();
  if (options_.global_batch == 0 && of_options != progress_.global_batch) {
    log_info("the run keeps its global batch of ", progress_.global_batch, " samples; batch_size = ", options_.batch_size, " would make ", of_options,
             " on these ", ranks_.samples.size(), " ranks, and has no effect");
  }
}

// Also without training: the run that is resumed may have ended before its last model was tested.
bool Trainer::Run::is_to_be_tested() const {
  return progress_.finished && test_.size() > 0 && (trained_samples_ > 0 || progress_.test.empty());
}

// @param unwritten set to the exception that all ranks throw later if a checkpoint or the timeline cannot be written: the report must come first
Summary Trainer::Run::finish(std::exception_ptr& unwritten) {
  progress_.finished = progress_.finished || (progress_.epoch > options_.epochs && !diverged_);
  const auto attempt = [&](const auto& call) {
    try {
      call();
    } catch (const RevokedError&) {
      throw;
    } catch (const Error&) {
      if (!unwritten) unwritten = std::current_exception();
    }
  };
  bool is_saved = diverged_ || trained_samples_ == 0;
  const auto write_files = [&] {
    if (!snapshots_) return;
    if (!is_saved) attempt([&] { save(); });
    is_saved = true;
    attempt([&] { snapshots_->finish(); });
    watch_memory("checkpoint");
    best_model_->finish(*snapshots_);
    count_memory();
  };
  if (is_to_be_tested()) {
    write_files();  // first: the evaluation may fail, e.g. on unreadable samples
    progress_.test = evaluate(test_);
    is_saved = false;
  }
  Summary summary{.ranks = ranks_.all.size(),
                  .epochs = progress_.epoch - 1,
                  .steps = progress_.step,
                  .parameters = trained_elements(ranks_, model_),
                  .test_samples = test_.size(),
                  .global_batch = progress_.global_batch,
                  .validation = progress_.validation,
                  .test = progress_.test,
                  .best = progress_.best,
                  .best_epoch = progress_.best_epoch,
                  .skipped_steps = progress_.skipped,
                  .overflowed_steps = scaling_.max_overflows(ranks_.samples),
                  .stopped_because = stopped_because_,
                  .diverged = diverged_,
                  .train_time = train_time_};
  summary.finished = progress_.finished;
  if (trained_samples_ > 0) count_into(summary);
  write_files();
  if (tracing()) attempt([&] { timeline_.write(ranks_.all); });
  if (trained_samples_ > 0) summary.memory = peaks_of_ranks(ranks_.all, memory_->peak());
  if (tracing() && trained_samples_ > 0)
    summary.step_memory = step_of_rank(ranks_.all, Rank(worst_rank(summary.memory)), whole_step_, of_whole_step_);
  notify(&Hook::on_end, summary);
  ranks_.all.barrier();  // the run ends on all ranks alike
  return summary;
}

// Fills in the measurements.
void Trainer::Run::count_into(Summary& summary) {
  summary.samples_per_s = static_cast<double>(trained_samples_) / train_time_.count();
  // Each rank's waits as a share of its own time: ranks begin an epoch at different times, and the first waits for the last.
  const double waits = strategy_->exposed_time() / train_time_;
  const auto steps = static_cast<double>(progress_.step - first_step_);
  const auto shares = sum_over_ranks(ranks_.all, {waits, loader_->waited() / train_time_, static_cast<double>(strategy_->payload_bytes()) / steps});
  summary.exposed_comm_share = shares[0] / ranks_.all.size();
  summary.bytes_per_step = shares[2] / ranks_.all.size();
  summary.waited_for_data_share = shares[1] / ranks_.all.size();
  if (const auto* traffic = strategy_->server_traffic()) {
    summary.servers = figures_of(*traffic, ranks_.all, train_time_);
  } else if (ranks_.parts == nullptr) {  // parts wait for each other outside the strategy
    summary.slow_rank = find_slow_rank(ranks_.all, waits);
  }
}

void Trainer::Run::watch_memory(const char* phase) {
  if (!memory_) return;
  memory_->begin();
  memory_->phase(phase);
}

void Trainer::Run::count_memory() {
  if (!memory_ || !memory_->matters()) return;
  KnownMemory known;
  strategy_->account(known);
  for (const NamedTensor& each : model_.buffers) known.add(MemoryUse::buffers, each.tensor);
  if (snapshots_) {
    known.add(MemoryUse::buffers, snapshots_->memory());
    known.add(MemoryUse::buffers, best_model_->memory());
  }
  memory_->end(progress_.step, known);
  if (!tracing()) return;
  for (const MemorySample& sample : memory_->samples()) timeline_.add(sample);
}

std::chrono::steady_clock::time_point Trainer::Run::span(const char* name, std::chrono::steady_clock::time_point begin) {
  const auto now = std::chrono::steady_clock::now();
  if (tracing()) timeline_.add(Timeline::Row::compute, name, begin, now, progress_.step);
  return now;
}

}  // namespace tw::train
