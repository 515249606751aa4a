// SPDX-License-Identifier: Apache-2.0
#include "worker.hpp"

#include <algorithm>
#include <iterator>
#include <tw/base/concat.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/evolution/pareto.hpp>
#include <tw/mpi/collectives.hpp>
#include <utility>

#include "match.hpp"

namespace tw::search {
namespace {

constexpr double shorter_than_a_message_s = 20e-6;

}  // namespace

Worker::Worker(const Communicator& workers, Evaluator& evaluator, const Space& space, const SearchOptions& options, const Layout& layout)
    : workers_(workers.dup()),
      place_{.space = space, .options = options, .layout = layout, .worker = workers.rank(), .island = layout.island_of(workers.rank())},
      quota_(0, workers.rank(), workers.size()),
      queue_(options.journal, space),
      post_(
          workers_, [this] { write_journal(); }, [this](const Message& message, int from) { take(message, from); }),
      island_(place_, post_, journal_, [this](const Individual& individual) { note_new(individual); }),
      trials_(place_, evaluator, post_, journal_, island_, quota_,
              [this](Individual individual, const Evaluation& evaluation) { end(std::move(individual), evaluation); }),
      progress_(place_, post_) {
  restore();
}

void Worker::run() {
  progress_.begin(past_);
  since_begin_ = Stopwatch();
  do work();
  while (trials_.scheduler().anyone_resumes(workers_, stopped_));
  trials_.end_paused();
  write_journal();
  progress_.tell(status());
  // Messages that hosts pass on to their islands in the first round arrive in the second.
  post_.settle();
  post_.settle();
  trials_.scheduler().exchange();  // handles requests that arrived after trials had ended
  write_journal();
  progress_.finish();
}

/// Evaluates trials until nothing is left to begin and no paused trial of this worker is to be resumed.
void Worker::work() {
  while (true) {
    post_.deliver();
    trials_.scheduler().exchange();
    if (is_time_up()) stopped_ = true;
    if (stopped_) return;
    if (trials_.resume_one()) {
      progress_.update(status());
      continue;
    }
    if (const auto interrupted = next_interrupted()) {
      quota_.take_own();
      begin_again(*interrupted);
      progress_.update(status());
      continue;
    }
    const bool begins = turns_.allows_others() && quota_.take();
    if (const auto whom = quota_.ask()) post_.send(QuotaRequest(), *whom);
    if (!begins) {
      write_journal();  // the wait may be long
      post_.send_gathered(true);
      if (quota_.is_over() && !trials_.any_waits()) return;
      post_.deliver(Post::poll_interval);
      continue;
    }
    begin(next_individual());
    progress_.update(status());
  }
}

Individual Worker::next_individual() {
  Individual individual{
      .trial = first_trial_ + place_.worker + proposed_++ * place_.layout.workers(), .worker = place_.worker, .island = place_.island};
  Proposal proposal = proposal_for(individual.trial);
  individual.values = std::move(proposal.values);
  individual.tag = proposal.tag;
  return individual;
}

/// Space::starts() come first, then queued configurations (see enqueue()), then proposals of the propagator.
Proposal Worker::proposal_for(int64_t trial) {
  if (trial >= static_cast<int64_t>(place_.space.starts().size())) {
    if (auto queued = queue_.take()) return *std::move(queued);
  }
  return island_.propose(trial);
}

void Worker::begin(Individual individual) {
  if (journal_) {
    journal_->start(individual, /*again=*/false);
    journal_->write();
  }
  post_.send_gathered(trials_.usual_s() > shorter_than_a_message_s);
  const std::string violated = place_.space.violated(individual.values);
  if (violated.empty()) {
    trials_.begin(std::move(individual));
  } else {
    end(std::move(individual), {.state = TrialState::infeasible, .message = "violates the constraint '" + violated + "'"});
  }
}

/// An interrupted trial that may begin now, if any.
std::optional<Interrupted> Worker::next_interrupted() {
  const auto next = std::ranges::find_if(interrupted_, [this](const Interrupted& each) { return turns_.allows(each.individual.trial); });
  if (next == interrupted_.end()) return std::nullopt;
  std::optional<Interrupted> taken(std::move(*next));
  interrupted_.erase(next);
  return taken;
}

void Worker::begin_again(const Interrupted& interrupted) {
  if (journal_) {
    journal_->start(interrupted.individual, /*again=*/true);
    journal_->write();
  }
  post_.send_gathered(true);
  if (is_given_up(interrupted, place_.options.max_attempts)) {
    end(interrupted.individual, {.state = TrialState::failed, .message = concat("its process was lost ", interrupted.losses, " times")});
    return;
  }
  trials_.begin(interrupted.individual);
  if (!turns_.has(interrupted.individual.trial)) return;
  write_journal();  // records its end before another trial can be blamed
  post_.send_all(TurnMessage{turns_.pass()}, 0, place_.layout.workers());
  post_.send_gathered(true);
}

void Worker::end(Individual individual, const Evaluation& evaluation) {
  individual.loss = evaluation.loss;
  individual.objectives = evaluation.objectives;
  individual.violation = evaluation.violation;
  individual.state = evaluation.state;
  ++counts_[static_cast<size_t>(individual.state)];
  if (individual.state == TrialState::failed && first_failure_.empty()) first_failure_ = concat("trial ", individual.trial, ": ", evaluation.message);
  if (journal_) journal_->end(individual, evaluation.message, evaluation.constraints);
  island_.end(individual);
}

void Worker::take(const Message& message, int from) {
  std::visit(Match{
                 [&](const ResultMessage& each) { island_.take(each); },
                 [&](const DepartureMessage& each) { island_.take(each); },
                 [&](const ImmigrantMessage& each) { island_.take(each, from); },
                 [&](const ReportMessage& each) { trials_.scheduler().observe(each.report, from); },
                 [&](const QuotaRequest& /*each*/) { post_.send(QuotaResponse{.evaluations = stopped_ ? 0 : quota_.give()}, from); },
                 [&](const QuotaResponse& each) { quota_.answer(each.evaluations); },
                 [&](const StateRequest& each) { trials_.scheduler().take(each, from); },
                 [&](const StateResponse& each) { trials_.scheduler().take(each, from); },
                 [&](const TurnMessage& each) { turns_.advance_to(each.over); },
                 [&](const StopMessage& /*each*/) { stopped_ = true; },
                 [&](const StatusMessage& each) { progress_.take(each, from); },
             },
             message);
}

/// Called for each individual of the island that was not known before.
void Worker::note_new(const Individual& individual) {
  if (individual.trial < 0) return;  // a result from elsewhere
  trials_.scheduler().end(individual);
  if (individual.has_comparable_loss() && (!best_ || individual.loss < best_->loss)) best_ = individual;
  if (individual.has_comparable_loss() && individual.loss <= place_.options.target) stop_all();
}

void Worker::stop_all() {
  if (std::exchange(stopped_, true)) return;
  post_.send_all(StopMessage(), 0, place_.layout.workers());
}

StatusMessage Worker::status() const {
  StatusMessage status{.busy_s = trials_.busy_s()};
  for (const int64_t each : counts_) status.evaluations += each;
  if (best_) status.best = best_->loss;
  return status;
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
  result.busy = trials_.busy_s() / std::max(result.seconds, 1e-9) / place_.layout.workers();
  mpi::allreduce(workers_, {&result.busy, 1, ElementType::float64}, ReduceOp::sum);
  result.front = front_of_all();
  if (!result.front.empty()) result.best = result.front.front();
  return result;
}

/// The front of all islands. Collective.
std::vector<Individual> Worker::front_of_all() {
  std::vector<Individual> own;  // evaluated by this search
  if (place_.options.objectives.size() > 1) {
    std::ranges::copy_if(population().all(), std::back_inserter(own), [](const Individual& each) { return each.trial >= 0; });
  } else if (best_) {
    own.push_back(*best_);
  }
  std::vector<Individual> mine;
  for (const Individual* each : front_of(own)) mine.push_back(*each);
  std::vector<Individual> all;
  for (const std::vector<Individual>& each : allgather_objects(workers_, mine)) all.insert(all.end(), each.begin(), each.end());
  std::vector<Individual> front;
  for (const Individual* each : front_of(all)) front.push_back(*each);
  return front;
}

}  // namespace tw::search
