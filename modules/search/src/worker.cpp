// SPDX-License-Identifier: Apache-2.0
#include "worker.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <tw/base/concat.hpp>
#include <tw/base/terminal.hpp>
#include <tw/comm/objects.hpp>
#include <tw/mpi/collectives.hpp>
#include <utility>

namespace tw::search {
namespace {

constexpr double shorter_than_a_letter_s = 20e-6;
constexpr double status_every_s = 0.25;
constexpr uint64_t migration_stream = uint64_t{1} << 63;  // of the random numbers; breeding and trials have those below

int64_t milliseconds(double seconds) { return static_cast<int64_t>(1e3 * std::min(seconds, 1e12)); }

}  // namespace

Worker::Worker(const Communicator& workers, Evaluator& evaluator, const Space& space, const SearchOptions& options, const Layout& layout)
    : workers_(workers.dup()),
      evaluator_(evaluator),
      space_(space),
      options_(options),
      layout_(layout),
      index_(workers.rank()),
      island_(layout.island_of(index_)),
      post_(workers_, [this] { write_journal(); }),
      statuses_(static_cast<size_t>(workers.size())) {
  if (options.stopping) stopping_ = options.stopping();
  if (options.promotion) promotion_.emplace(*options.promotion);
  if (options.population_training) training_.emplace(*options.population_training);
  restore();
}

void Worker::run() {
  if (options_.progress && index_ == 0) {
    const bool counts = options_.evaluations > 0;  // or else it goes by time
    const int64_t total = counts ? std::max<int64_t>(0, options_.evaluations - past_) : milliseconds(options_.seconds);
    bar_.emplace(std::cout, output_is_terminal(), "search", counts ? "evaluations" : "", total);
  }
  since_begin_ = Stopwatch();
  do work();
  while (anyone_goes_on());
  end_paused();
  write_journal();
  if (options_.progress) tell_status();
  // What hosts hand on to their islands in the first round arrives in the second.
  const auto listen = [this](const News& news, int from) { take(news, from); };
  post_.settle(listen);
  post_.settle(listen);
  exchange();  // what comes for trials that have ended
  write_journal();
  if (bar_) bar_->finish(draw_progress());
}

/// Until nothing is left to begin, and no paused trial of this worker goes on.
void Worker::work() {
  const auto listen = [this](const News& news, int from) { take(news, from); };
  while (true) {
    post_.deliver(listen);
    exchange();
    if (is_time_up()) stopped_ = true;
    if (stopped_) return;
    if (const auto trial = next_paused()) {
      resume(*trial);
      show_progress();
      continue;
    }
    const bool begins = quota_->take();
    if (const auto whom = quota_->ask()) post_.send({.kind = News::Kind::ask}, *whom);
    if (!begins) {
      write_journal();  // it may be long
      post_.send_gathered(true);
      const bool waits = training_ && !paused_.empty();
      if (quota_->is_over() && !waits) return;
      post_.deliver(listen, Post::a_look);
      continue;
    }
    if (!interrupted_.empty()) {
      const Interrupted repeated = interrupted_.front();
      interrupted_.pop_front();
      begin_again(repeated);
    } else {
      begin(bred());
    }
    show_progress();
  }
}

/// What the space starts at comes first of all, and is nobody's proposal.
Proposal Worker::propose(int64_t trial) {
  std::vector<double> initial = space_.initial();
  if (trial == 0 && !initial.empty()) return {.values = std::move(initial), .tag = {.run = -1, .index = -1}};
  CounterRng random(options_.seed, static_cast<uint64_t>(trial));
  return propagator_->ask(population_, random);
}

Individual Worker::bred() {
  Individual individual{.trial = first_trial_ + index_ + bred_++ * layout_.workers(), .worker = index_, .island = island_};
  Proposal proposal = propose(individual.trial);
  individual.values = std::move(proposal.values);
  individual.tag = proposal.tag;
  return individual;
}

void Worker::begin(Individual individual) {
  if (journal_) {
    journal_->start(individual, /*again=*/false);
    journal_->write();
  }
  post_.send_gathered(usual_s_ > shorter_than_a_letter_s);
  const std::string violated = space_.violated(individual.values);
  if (violated.empty()) {
    run_on({.individual = std::move(individual)});
  } else {
    end(std::move(individual),
        {.loss = std::numeric_limits<double>::infinity(), .state = TrialState::infeasible, .message = "violates '" + violated + "'"});
  }
}

void Worker::begin_again(const Interrupted& interrupted) {
  if (journal_) {
    journal_->start(interrupted.individual, /*again=*/true);
    journal_->write();
  }
  post_.send_gathered(true);
  if (interrupted.losses < options_.attempts) {
    run_on({.individual = interrupted.individual});
  } else {
    end(interrupted.individual, {.loss = std::numeric_limits<double>::infinity(),
                                 .state = TrialState::failed,
                                 .message = concat("its process was lost ", interrupted.losses, " times")});
  }
}

/// Has the objective go on with it, until the trial ends or pauses.
void Worker::run_on(Course course) {
  const Evaluator::Listener listener{.report = [this](int64_t step, double value) { return report(step, value); }, .attend = [this] { attend(); }};
  running_ = std::move(course);
  const Individual& individual = running_->individual;
  Evaluation evaluation = evaluator_.evaluate(individual.trial, individual.values, running_->step, listener);
  busy_s_ += evaluation.seconds;
  usual_s_ += 0.1 * (evaluation.seconds - usual_s_);
  running_->individual.seconds += evaluation.seconds;
  const Course now = *std::exchange(running_, std::nullopt);
  if (evaluation.paused) {
    pause(now);
    return;
  }
  // It had come to its end before it paused, and has not found anything since.
  if (evaluation.state == TrialState::complete && now.is_unchanged()) evaluation.loss = now.value;
  end(now.ended(), evaluation);
}

void Worker::end(Individual individual, const Evaluation& evaluation) {
  individual.loss = evaluation.loss;
  individual.state = evaluation.state;
  ++counts_[static_cast<size_t>(individual.state)];
  if (individual.state == TrialState::failed && first_failure_.empty()) first_failure_ = concat("trial ", individual.trial, ": ", evaluation.message);
  if (journal_) journal_->end(individual, evaluation.message);
  absorb(individual);
  if (individual.counts()) wards_.add(individual);
  tell_island({.kind = News::Kind::result, .individual = individual});
  migrate(individual.trial);
}

/// A copy that has not reported remains what it was.
Individual Worker::Course::ended() const {
  Individual ended = individual;
  if (copied) ended.values = own_values;
  return ended;
}

Verdict Worker::report(int64_t step, double value) {
  // It has begun once more, without a state to go on from, and was here before.
  if (step <= running_->resumed_at) return Verdict::go_on;
  const Report report{running_->individual.trial, step, value};
  running_->step = step;
  running_->value = value;
  const std::optional<int64_t> original = std::exchange(running_->copied, std::nullopt);
  if (journal_) {
    if (original) journal_->copy(running_->individual, running_->resumed_at, *original);
    journal_->report(report.trial, step, value);
    journal_->write();
  }
  if (stopping_ || promotion_ || training_) {
    News news{.kind = News::Kind::report, .step = step, .value = value};
    news.individual.trial = report.trial;
    tell_island(news);
  }
  attend();
  if (training_) return verdict_in_population(report);
  if (promotion_ && promotion_->arrive(report)) return Verdict::pause;
  if (!stopping_) return std::isnan(value) ? Verdict::stop : Verdict::go_on;
  stopping_->observe(report);
  return stopping_->goes_on(report) ? Verdict::go_on : Verdict::stop;
}

void Worker::attend() {
  post_.send_gathered(true);
  post_.deliver([this](const News& each, int from) { take(each, from); });
}

void Worker::migrate(int64_t trial) {
  CounterRng random(options_.seed, migration_stream | static_cast<uint64_t>(trial));
  const std::optional<int> to = destination(options_.migration, island_, layout_.islands(), random);
  if (!to || wards_.empty()) return;
  Individual emigrant = wards_.chosen(options_.migration.emigrant, random);
  emigrant.moves = presence_.moves(emigrant.trial) + 1;
  post_.send({.kind = News::Kind::immigrant, .individual = emigrant, .replaces = options_.migration.copies}, layout_.host_of(emigrant.trial, *to));
  if (!options_.migration.copies) leave(emigrant.trial);
}

void Worker::absorb(const Individual& individual) {
  const bool is_new = population_.add(individual);
  const bool is_here = presence_.arrives(individual.trial, individual.moves);
  if (is_new) {
    propagator_->tell(individual);
    if (training_) training_->end(individual.trial);
    if (!is_here) population_.deactivate(individual.trial);
    if (individual.counts() && individual.loss <= options_.target) stop_all();
  } else if (is_here) {
    population_.activate(individual.trial);
  }
}

void Worker::part_with(int64_t trial, int32_t moves) {
  if (presence_.departs(trial, moves)) population_.deactivate(trial);
}

/// One that this worker answers for counts on the island no more.
void Worker::leave(int64_t trial) {
  News news{.kind = News::Kind::departure};
  news.individual.trial = trial;
  news.individual.moves = presence_.moves(trial);
  wards_.remove(trial);
  part_with(trial, news.individual.moves);
  if (journal_) journal_->note(Record::Kind::departure, trial, news.individual.moves);
  tell_island(news);
}

void Worker::tell_island(const News& news) { post_.send_all(news, layout_.first_worker(island_), layout_.first_worker(island_ + 1)); }

void Worker::take(const News& news, int from) {
  const Individual& individual = news.individual;
  switch (news.kind) {
    case News::Kind::result:
      if (journal_) journal_->note(Record::Kind::arrival, individual.trial, individual.moves);
      absorb(individual);
      break;
    case News::Kind::departure:
      if (journal_) journal_->note(Record::Kind::departure, individual.trial, individual.moves);
      part_with(individual.trial, individual.moves);
      break;
    case News::Kind::immigrant: take_in(individual, layout_.island_of(from), news.replaces); break;
    case News::Kind::report:
      observe({individual.trial, news.step, news.value});
      if (training_) homes_[individual.trial] = from;
      break;
    case News::Kind::ask: post_.send({.kind = News::Kind::answer, .number = stopped_ ? 0 : quota_->give()}, from); break;
    case News::Kind::answer: quota_->answer(news.number); break;
    case News::Kind::stop: stopped_ = true; break;
    case News::Kind::ask_state: take_question(news, from); break;
    case News::Kind::state: exchange_.emplace_back(news, from); break;
    case News::Kind::status: statuses_[static_cast<size_t>(from)] = {news.number, 1e-6 * static_cast<double>(news.step), news.value}; break;
  }
}

/// A report of another trial than the one that runs.
void Worker::observe(const Report& report) {
  if (stopping_) stopping_->observe(report);
  if (promotion_) promotion_->arrive(report);
  if (training_) training_->observe(report);
}

/// This worker answers for it from now on, and tells the island.
void Worker::take_in(const Individual& individual, int from, bool replaces) {
  if (replaces && !wards_.empty()) {
    CounterRng random(options_.seed, migration_stream | static_cast<uint64_t>(individual.trial));
    leave(Individual(wards_.chosen(options_.migration.replaced, random)).trial);
  }
  if (journal_) journal_->adopt(individual, from);
  absorb(individual);
  wards_.add(individual);
  tell_island({.kind = News::Kind::result, .individual = individual});
}

void Worker::stop_all() {
  if (std::exchange(stopped_, true)) return;
  post_.send_all({.kind = News::Kind::stop}, 0, layout_.workers());
}

/// The others tell worker 0 now and then, which shows what it knows.
void Worker::show_progress() {
  if (!options_.progress || since_status_.elapsed().count() < status_every_s) return;
  since_status_ = Stopwatch();
  tell_status();
  if (bar_) draw_progress();
}

/// What worker 0 shows.
void Worker::tell_status() {
  Status mine{.busy_s = busy_s_};
  for (const int64_t each : counts_) mine.evaluations += each;
  if (population_.best() != nullptr) mine.best = population_.best()->loss;
  if (index_ == 0) {
    statuses_[0] = mine;
  } else {
    post_.send({.kind = News::Kind::status, .number = mine.evaluations, .step = static_cast<int64_t>(1e6 * mine.busy_s), .value = mine.best}, 0);
  }
}

/// @return the note on the line
std::string Worker::draw_progress() {
  Status all;
  for (const Status& each : statuses_) {
    all.evaluations += each.evaluations;
    all.busy_s += each.busy_s;
    all.best = std::min(all.best, each.best);
  }
  const double seconds = since_begin_.elapsed().count();
  std::string note = concat("busy ", std::lround(100 * all.busy_s / (seconds * layout_.workers())), " %");
  if (std::isfinite(all.best)) note = concat("best ", all.best, ", ", note);
  if (options_.evaluations == 0) note = concat(all.evaluations, " evaluations, ", note);
  bar_->update(options_.evaluations > 0 ? all.evaluations : milliseconds(std::min(seconds, options_.seconds)), note);
  return note;
}

SearchResult Worker::result() {
  SearchResult result{.seconds = since_begin_.elapsed().count(), .first_failure = first_failure_};
  std::vector<int64_t> counts = counts_;
  mpi::allreduce(workers_, {counts.data(), static_cast<int64_t>(counts.size()), ElementType::int64}, ReduceOp::sum);
  const auto of = [&](TrialState state) { return counts[static_cast<size_t>(state)] + past_counts_[static_cast<size_t>(state)]; };
  result.complete = of(TrialState::complete);
  result.pruned = of(TrialState::pruned);
  result.failed = of(TrialState::failed);
  result.infeasible = of(TrialState::infeasible);
  mpi::allreduce(workers_, {&result.seconds, 1, ElementType::float64}, ReduceOp::max);
  result.busy = busy_s_ / std::max(result.seconds, 1e-9) / layout_.workers();
  mpi::allreduce(workers_, {&result.busy, 1, ElementType::float64}, ReduceOp::sum);
  Bytes mine;
  if (population_.best() != nullptr) put(mine, *population_.best());
  for (const std::string& each : allgather_strings(workers_, std::string(reinterpret_cast<const char*>(mine.data()), mine.size()))) {
    if (each.empty()) continue;
    Reading reading(reinterpret_cast<const std::byte*>(each.data()), each.size());
    Individual best = reading.get_individual();
    if (result.best.trial < 0 || best.loss < result.best.loss || (best.loss == result.best.loss && best.trial < result.best.trial)) {
      result.best = std::move(best);
    }
  }
  return result;
}

}  // namespace tw::search
