// SPDX-License-Identifier: Apache-2.0
#include <tw/train/trainer.hpp>

#include <torch/optim/optimizer.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <tw/base/contract.hpp>
#include <tw/base/log.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>
#include <tw/data/loader.hpp>
#include <tw/state/directory_lock.hpp>
#include <tw/train/timeline.hpp>

#include "agreed_options.hpp"
#include "best_model.hpp"
#include "data_identity.hpp"
#include "evaluate.hpp"
#include "non_finite.hpp"
#include "pass.hpp"
#include "progress_shard.hpp"
#include "ranks.hpp"
#include "server_figures.hpp"
#include "signals.hpp"
#include "snapshots.hpp"
#include "strategy.hpp"

namespace tw::train {
namespace {

constexpr int64_t most_restores = 3;

}  // namespace

// The parts of a run, in the order of a step: the loader gives this rank's share of the samples, the model a loss, `strategy_` gradients and an
// update, `snapshots_` what survives a kill.
class Trainer::Run {
 public:
  Run(Mesh mesh, Model model, torch::optim::Optimizer& optimizer, Objective objective, const Dataset& train, const Dataset& test,
      const Options& options)
      : mesh_(std::move(mesh)),
        model_(std::move(model)),
        ranks_(ranks_of(mesh_, model_)),
        objective_(std::move(objective)),
        train_(train),
        test_(test),
        options_(agreed_options(ranks_.all, options, train, test, objective_)) {
    expect_parameters(ranks_, model_);
    if (keeps_checkpoints()) {
      lock_.emplace(ranks_.all, options_.folder());
      if (ranks_.all.rank() == 0) best_.remove_partial();
      snapshots_.emplace(ranks_, model_, options_);
    }
    earlier_ = to_resume();
    strategy_ = make_strategy(ranks_, model_, optimizer, options_.strategy, earlier_ ? earlier_->arrival_order : std::vector<int64_t>(),
                              [this](const char* name, int64_t number, auto begin, auto end) {
                                if (tracing()) timeline_.add(Timeline::Row::communication, name, begin, end, number);
                              });
    for (const auto& group : strategy_->optimizer().param_groups()) base_rates_.push_back(group.options().get_lr());
    state_.emplace(ranks_.all, model_, strategy_->optimizer(), options_);
    for (const Metric& metric : objective_.metrics) state_->figures.push_back(metric.name);
  }

  ~Run() {
    if (tracing() && model_.parts && model_.parts->observe) model_.parts->observe({});
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void add(Hook& hook) { hooks_.push_back(&hook); }

  std::vector<NamedShard> shards() const {
    std::vector<NamedShard> all = shards_of(model_, *strategy_);
    all.push_back(as_shard(progress_));
    return all;
  }

  void prepare(const std::vector<std::string>& names) { strategy_->prepare(names); }

  void apply(const std::vector<NamedShard>& shards) {
    strategy_->apply(shards);
    take_shard(progress_, shards);
  }

  void begin_behind(int64_t epochs) {
    TW_EXPECTS(!earlier_ && epochs >= 0, "a run that resumes a checkpoint does not begin behind epoch ", epochs);
    begin_behind_ = epochs;
  }

  Summary run() {
    const Signals signals;
    make_loader();
    if (tracing()) trace();
    begin();
    model_.set_training(true);
    notify(&Hook::on_start);
    while (progress_.epoch <= options_.epochs && !stopped()) train_epoch();
    return finish();
  }

 private:
  bool keeps_checkpoints() const { return options_.checkpoint.every_epochs > 0 || options_.checkpoint.every_steps > 0; }
  bool tracing() const { return !options_.trace.empty(); }
  bool stopped() const { return !stopped_because_.empty(); }

  template <class Method, class... Arguments>
  void notify(Method method, const Arguments&... arguments) {
    for (Hook* hook : hooks_) (hook->*method)(*state_, arguments...);
  }

  void trace() {
    timeline_.begin(ranks_.all, options_.trace);
    if (!model_.parts || !model_.parts->observe) return;
    model_.parts->observe(
        [this](const char* name, auto begin, auto end) { timeline_.add(Timeline::Row::compute, name, begin, end, progress_.step); });
  }

  // Those of the first model along the data axis put it together.
  void keep_best() {
    if (ranks_.data.rank() != 0) return;
    const std::vector<NamedTensor> tensors = model_.parts ? model_.parts->whole() : model_.all_tensors();
    if (ranks_.all.rank() == 0) best_.keep(progress_, tensors);
  }

  // Where the run to be gone on with stands, if there is one. Nothing is changed yet, so that whatever is refused loses nothing.
  std::optional<Progress> to_resume() {
    progress_.global_batch = options_.global_batch > 0 ? options_.global_batch : options_.batch_size * ranks_.data.size();
    progress_.seed = options_.seed;
    if (snapshots_) {
      const std::string identity =
          on_all_ranks(ranks_.all, "reading the data's content", [&] { return ranks_.all.rank() == 0 ? identity_of(train_, test_) : std::string(); });
      progress_.data = broadcast_string(ranks_.all, identity, Rank(0));
    }
    if (!snapshots_ || options_.resume == Resume::fresh) return std::nullopt;
    const auto last = snapshots_->last_step();
    if (!last) return std::nullopt;
    const auto earlier = snapshots_->newest();
    const bool refuses = options_.resume == Resume::refuse;
    if (!earlier || (refuses && earlier->finished && earlier->step != *last)) {
      throw Error(concat(options_.folder().string(), " holds a run whose end is unknown: the newest checkpoint, of step ", *last, ", is damaged. ",
                         earlier ? concat("Resume from that of step ", earlier->step, " (--resume), or say") : "No other is whole. Say",
                         " that it may be lost (--fresh)"));
    }
    if (refuses && earlier->finished) return std::nullopt;
    if (refuses) {
      throw Error(concat(options_.folder().string(), " holds a run that was not finished: epoch ", earlier->epoch, ", step ", earlier->step,
                         ". Resume it (--resume), or say that it may be lost (--fresh)"));
    }
    TW_EXPECTS(earlier->seed == options_.seed, "the run to be resumed was begun with seed ", earlier->seed, ", not ", options_.seed);
    if (!earlier->data.empty() && earlier->data != progress_.data) {
      throw Error(concat("the run in ", options_.folder().string(), " was begun with other data: to train and to test, ", earlier->data,
                         ", where these have ", progress_.data, ". Resume it with its own, or give this one another name"));
    }
    progress_.global_batch = earlier->global_batch;
    return earlier;
  }

  void make_loader() {
    const int64_t batch = options_.samples_of_a_pass(progress_.global_batch, ranks_.data.size());
    const SamplerOptions sampler{.seed = static_cast<uint64_t>(options_.seed), .uneven = options_.uneven};
    loader_.emplace(train_, DistributedSampler(static_cast<size_t>(train_.size()), ranks_.data.size(), ranks_.data.rank(), sampler),
                    LoaderOptions{.global_batch = batch,
                                  .workers = static_cast<int>(options_.loader_workers),
                                  .augmentation = options_.augmentation,
                                  .seed = static_cast<uint64_t>(options_.seed)});
    TW_EXPECTS(loader_->steps() > 0, "dropping what cannot be shared evenly leaves nothing of ", train_.size(), " samples for ", ranks_.data.size(),
               " ranks");
    if (progress_.global_batch > train_.size() && ranks_.all.rank() == 0) {
      log_warning("the global batch of ", progress_.global_batch, " is more than the ", train_.size(),
                  " samples that there are: an epoch is one update");
    }
    length_ = {(loader_->steps() + options_.accumulation - 1) / options_.accumulation, options_.epochs, progress_.global_batch};
  }

  void begin() {
    if (earlier_) {
      const std::string data = progress_.data;
      progress_ = snapshots_->restore(earlier_->step, *strategy_);
      progress_.finished = false;
      progress_.data = data;
      const auto mine = [this](const std::vector<double>& sums) { return share_of(sums, ranks_.data.rank(), ranks_.data.size()); };
      loss_ = {.sum = mine(progress_.loss_sums), .samples = mine(progress_.loss_samples)};
      stop_out_of_patience();
    } else if (snapshots_) {
      snapshots_->remove_all();
      if (ranks_.all.rank() == 0) best_.forget();
    }
    if (begin_behind_ > 0) {
      progress_.epoch = begin_behind_ + 1;
      progress_.step = begin_behind_ * length_.steps_per_epoch;
    }
    state_->step = first_step_ = progress_.step;
  }

  void train_epoch() {
    state_->epoch = progress_.epoch;
    state_->samples = progress_.consumed;
    loader_->begin_epoch(progress_.epoch - 1, progress_.consumed);
    state_->epoch_samples = loader_->end();
    notify(&Hook::on_start_epoch);
    const Stopwatch watch;
    const int64_t samples_before = progress_.consumed;
    while (progress_.consumed < state_->epoch_samples && !stopped()) {
      update();
      if (snapshots_) snapshots_->poll();
      const int64_t every = options_.checkpoint.every_steps;
      const bool epoch_ends = progress_.consumed >= state_->epoch_samples;
      if (!stopped() && !epoch_ends && every > 0 && progress_.step % every == 0) save();
    }
    ranks_.all.barrier();  // the epoch takes as long as its slowest rank
    const Seconds time = watch.elapsed();
    trained_samples_ += progress_.consumed - samples_before;
    train_time_ += time;
    if (progress_.consumed >= state_->epoch_samples) end_epoch(time);
  }

  // One step of the optimizer, on the samples of `accumulation` batches.
  void update() {
    const int64_t samples = std::min(progress_.global_batch, state_->epoch_samples - progress_.consumed);
    strategy_->zero_grad();
    set_learning_rate();
    const BufferCopies buffers(model_);
    for (int64_t pass = 0; loader_->consumed() < progress_.consumed + samples; ++pass) backward(pass, samples);
    notify(&Hook::on_backward);
    progress_.consumed = loader_->consumed();
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = strategy_->update();
    span("update", begin);
    if (outcome.left_out) {
      suspect_.confirm();
      buffers.put_back();  // whatever the reaction: ranks that meet rarely take checkpoints before it
    }
    state_->step = ++progress_.step;
    state_->samples = progress_.consumed;
    if (outcome.trouble) react();
    notify(&Hook::on_update);
    heed(outcome);
  }

  // Takes the next batch, and this rank's share of the gradient of its loss.
  void backward(int64_t pass, int64_t samples) {
    auto begin = std::chrono::steady_clock::now();
    state_->outputs = state_->loss = at::Tensor();  // so that their memory serves the next ones
    state_->batch = Batch();
    state_->batch = loader_->next().value();
    begin = span("data", begin);
    const int64_t here = state_->batch.size();
    const bool last = loader_->consumed() >= progress_.consumed + samples;
    const int64_t number = progress_.step * options_.accumulation + pass;
    const uint64_t seed = seed_of_pass(options_.seed, number * ranks_.data.size() + ranks_.data.rank());
    torch::manual_seed(seed);
    if (model_.parts && model_.parts->begin_pass) model_.parts->begin_pass(number);
    notify(&Hook::on_sample);
    state_->loss = here > 0 ? loss_of(state_->batch) : loss_of_nothing(model_);
    state_->mean_loss = here > 0 ? state_->loss.item<double>() : 0.0;
    begin = span("forward", begin);
    notify(&Hook::on_forward);
    const bool finite = std::isfinite(state_->mean_loss);
    suspect_.note(state_->batch, seed, finite);
    if (!finite) strategy_->say(Word::trouble);
    if (!Signals::caught().empty() || !state_->stop_reason.empty()) strategy_->say(Word::stop);
    strategy_->backward(state_->loss, here, samples, last);
    span("backward", begin);
    if (finite) loss_.add(state_->mean_loss, here);
  }

  at::Tensor loss_of(const Batch& batch) {
    if (model_.parts && model_.parts->loss) {
      const auto pause = strategy_->pause();
      return model_.parts->loss(batch.inputs, batch.targets, objective_.loss);
    }
    state_->outputs = model_.forward(batch.inputs);
    return objective_.loss(state_->outputs, batch.targets);
  }

  void set_learning_rate() {
    const double factor = learning_rate_factor(options_.schedule, length_, progress_.step);
    auto& groups = strategy_->optimizer().param_groups();
    for (size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(base_rates_[i] * factor);
    state_->learning_rate = base_rates_.front() * factor;
  }

  // What to do where some rank had no finite gradients.
  void react() {
    const std::string where = suspect_.examine(ranks_.all, model_, objective_);
    const auto say = [&](const char* reaction) {
      if (ranks_.all.rank() == 0) log_warning("step ", progress_.step, ": ", where, "; ", reaction);
    };
    if (snapshots_) snapshots_->settle();
    const bool may_restore = options_.non_finite == NonFinite::restore && snapshots_ && progress_.restores < most_restores;
    const auto newest = may_restore ? snapshots_->newest() : std::nullopt;
    if (options_.non_finite == NonFinite::skip) {
      ++progress_.skipped;
      say("this update is left out");
    } else if (newest) {
      say("back to the parameters of the newest checkpoint");
      (void)snapshots_->restore(newest->step, *strategy_);
      (void)strategy_->meet();  // again: a checkpoint of the middle of a period holds parameters of each rank's own
      ++progress_.skipped;
      ++progress_.restores;
    } else {
      say("the run ends here");
      stopped_because_ = concat("step ", progress_.step, ": ", where);
      diverged_ = true;
    }
  }

  void heed(const Outcome& outcome) {
    if (outcome.stop && !stopped()) stopped_because_ = reason_to_stop();
  }

  std::string reason_to_stop() {
    const std::string signal = Signals::caught();
    for (const std::string& reason : allgather_strings(ranks_.all, signal.empty() ? state_->stop_reason : signal)) {
      if (!reason.empty()) return reason;
    }
    return "stopped";
  }

  void end_epoch(Seconds time) {
    const Stopwatch watch;
    const Outcome outcome = strategy_->meet();
    const Seconds meeting = watch.elapsed();  // is training too
    time += meeting;
    train_time_ += meeting;
    if (outcome.trouble) react();
    heed(outcome);
    EpochReport report;
    report.epoch = progress_.epoch;
    report.step = progress_.step;
    report.learning_rate = state_->learning_rate;
    report.train_time = time;
    report.samples = state_->epoch_samples;
    const std::vector<double> losses = sum_over_ranks(ranks_.data, {loss_.sum, loss_.samples});
    report.train_loss = losses[0] / losses[1];
    const bool last = progress_.epoch == options_.epochs;
    if (test_.size() > 0 && (last || progress_.epoch % options_.evaluate_every == 0)) {
      synchronize(ranks_.data, model_.buffers);
      report.test = evaluate(ranks_.data, model_, objective_, test_);
      if (ranks_.parts != nullptr) make_equal(*ranks_.parts, report.test);
      progress_.test = report.test;
      report.best = best_.judge(report, progress_);
      if (report.best && snapshots_) keep_best();
    }
    loss_ = {};
    progress_.consumed = 0;
    ++progress_.epoch;
    stop_out_of_patience();
    notify(&Hook::on_end_epoch, report);
    const int64_t every = options_.checkpoint.every_epochs;
    if (!last && !stopped() && every > 0 && report.epoch % every == 0) save();
  }

  void stop_out_of_patience() {
    const std::string why = best_.why_out_of_patience(progress_);
    if (why.empty() || stopped()) return;
    stopped_because_ = why;
    progress_.finished = true;
  }

  void save() {
    const auto begin = std::chrono::steady_clock::now();
    snapshots_->save(progress_, loss_, *strategy_);
    span("checkpoint", begin);
  }

  Summary finish() {
    Summary summary{.ranks = ranks_.all.size(),
                    .epochs = progress_.epoch - 1,
                    .steps = progress_.step,
                    .parameters = trained_elements(ranks_, model_),
                    .test_samples = test_.size(),
                    .global_batch = progress_.global_batch,
                    .test = progress_.test,
                    .best = progress_.best,
                    .best_epoch = progress_.best_epoch,
                    .skipped_steps = progress_.skipped,
                    .stopped_because = stopped_because_,
                    .diverged = diverged_,
                    .train_time = train_time_};
    progress_.finished = progress_.finished || (progress_.epoch > options_.epochs && !diverged_);
    summary.finished = progress_.finished;
    if (trained_samples_ > 0) {
      summary.samples_per_s = static_cast<double>(trained_samples_) / train_time_.count();
      // Each rank's waits over its own time: ranks do not begin an epoch at the same moment, and the first to begin waits for the last.
      const auto shares = sum_over_ranks(ranks_.all, {strategy_->exposed_time() / train_time_, loader_->waited() / train_time_});
      summary.exposed_comm_share = shares[0] / ranks_.all.size();
      summary.bytes_per_step = static_cast<double>(strategy_->payload_bytes()) / static_cast<double>(progress_.step - first_step_);
      summary.waited_for_data_share = shares[1] / ranks_.all.size();
      if (const auto* traffic = strategy_->server_traffic()) summary.servers = figures_of(*traffic, ranks_.data, train_time_);
    }
    // What cannot be written takes the report away from nobody.
    std::exception_ptr failure;
    const auto attempt = [&](const auto& call) {
      try {
        call();
      } catch (const Error&) {
        if (!failure) failure = std::current_exception();
      }
    };
    if (snapshots_ && !diverged_ && trained_samples_ > 0) attempt([&] { save(); });
    if (snapshots_) attempt([&] { snapshots_->finish(); });
    if (tracing()) attempt([&] { timeline_.write(ranks_.all); });
    notify(&Hook::on_end, summary);
    if (failure) std::rethrow_exception(failure);
    return summary;
  }

  std::chrono::steady_clock::time_point span(const char* name, std::chrono::steady_clock::time_point begin) {
    const auto now = std::chrono::steady_clock::now();
    if (tracing()) timeline_.add(Timeline::Row::compute, name, begin, now, progress_.step);
    return now;
  }

  Mesh mesh_;
  Model model_;
  Ranks ranks_;
  Objective objective_;
  const Dataset& train_;
  const Dataset& test_;
  Options options_;
  BestModel best_{model_, objective_, options_};
  std::optional<DirectoryLock> lock_;
  std::optional<Snapshots> snapshots_;
  std::optional<Progress> earlier_;  // where the run to be resumed stands
  std::unique_ptr<Strategy> strategy_;
  std::optional<Loader> loader_;
  std::vector<Hook*> hooks_;
  std::vector<double> base_rates_;  // of the optimizer's groups
  RunLength length_;
  Progress progress_;
  int64_t begin_behind_ = 0;  // epochs
  int64_t first_step_ = 0;    // where this run began, or went on
  EpochLoss loss_;
  Suspect suspect_;
  std::optional<State> state_;
  std::string stopped_because_;
  bool diverged_ = false;
  int64_t trained_samples_ = 0;
  Seconds train_time_{0};
  Timeline timeline_;
};

Trainer::Trainer(const Communicator& comm, Model model, torch::optim::Optimizer& optimizer, Objective objective, const Dataset& train,
                 const Dataset& test, const Options& options)
    : run_(std::make_unique<Run>(Mesh(comm, {{"data"}}), std::move(model), optimizer, std::move(objective), train, test, options)) {}

Trainer::Trainer(const Mesh& mesh, Model model, torch::optim::Optimizer& optimizer, Objective objective, const Dataset& train, const Dataset& test,
                 const Options& options)
    : run_(std::make_unique<Run>(Mesh(mesh.comm(), mesh.shape().axes()), std::move(model), optimizer, std::move(objective), train, test, options)) {}

Trainer::~Trainer() = default;

void Trainer::add(Hook& hook) { run_->add(hook); }
std::vector<NamedShard> Trainer::shards() const { return run_->shards(); }
void Trainer::prepare(const std::vector<std::string>& names) { run_->prepare(names); }
void Trainer::apply(const std::vector<NamedShard>& shards) { run_->apply(shards); }
void Trainer::begin_behind(int64_t epochs) { run_->begin_behind(epochs); }
Summary Trainer::run() { return run_->run(); }

}  // namespace tw::train
