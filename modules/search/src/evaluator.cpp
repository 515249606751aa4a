// SPDX-License-Identifier: Apache-2.0
#include "evaluator.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <span>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/evolution/stopping.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/library.hpp>
#include <tw/mpi/revoke_on_exception.hpp>

#include "judgement.hpp"

namespace tw::search {
namespace {

constexpr size_t numbers_of_an_order = 3;
constexpr size_t max_of_a_message = 4096;  // bytes: it is kept in journals and shown in reports

/// The beginning of a long message, with the number of bytes that were cut off.
std::string beginning_of(const std::string& message) {
  if (message.size() <= max_of_a_message) return message;
  size_t end = max_of_a_message;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0) == 0x80) --end;  // never splits a UTF-8 character
  return concat(message.substr(0, end), " ... and ", message.size() - end, " more bytes");
}

/// Other ranks may compute for long before they join. This is no stall, so each single wait is short.
void wait_patiently(Work work) {
  while (!work.wait_for(std::chrono::milliseconds(100))) {
  }
}

/// Broadcasts from the first rank.
void broadcast_patiently(const Communicator& comm, std::span<std::byte> message) {
  if (comm.size() == 1) return;
  const auto kept = std::make_shared<std::vector<std::byte>>(message.begin(), message.end());  // may outlive `message` if a revocation ends the wait
  const auto bytes = static_cast<int64_t>(kept->size());
  wait_patiently(mpi::start(comm, {.collective = Collective::broadcast, .peer = 0, .count = bytes},
                            mpi::broadcast_transfer(comm, {kept->data(), bytes, ElementType::uint8}, Rank(0)), [kept] {}));
  std::ranges::copy(*kept, message.begin());
}

/// Why a trial failed: the cause on this rank, or else on the first rank that has one.
std::string message_of(const std::vector<RankFailure>& failures, const Communicator& ranks) {
  const auto knows = [](const RankFailure& failure) { return failure.kind != RankFailure::Kind::consequence; };
  const auto mine = std::ranges::find(failures, int{ranks.rank()}, &RankFailure::rank);
  if (mine != failures.end() && (knows(*mine) || ranks.size() == 1)) return mine->message;
  const auto first = std::ranges::find_if(failures, knows);
  const RankFailure& told = first == failures.end() ? failures.front() : *first;
  return concat("rank ", told.rank, " of its worker: ", told.message);
}

}  // namespace

/// One call of the objective, on one rank.
class Evaluator::Running : public Trial::Host {
 public:
  Running(Evaluator& evaluator, int64_t trial, int64_t step, const Listener& listener)
      : evaluator_(evaluator), trial_(trial), step_(step), listener_(listener) {}

  bool report(int64_t step, double value) override {
    if (verdict_ != Verdict::go_on) return false;
    TW_EXPECTS(!last_ || step > last_->step, "the steps of a trial's reports must ascend: got ", step, " after ", last_->step);
    last_ = {trial_, step, value};
    if (evaluator_.leads()) watched([&] { verdict_ = listener_.report(step, value); });
    broadcast_patiently(evaluator_.team_.verdicts(), std::as_writable_bytes(std::span(&verdict_, 1)));
    if (verdict_ == Verdict::pause) capture();
    return verdict_ == Verdict::go_on;
  }

  int64_t attach(Attachment attachment) override {
    TW_EXPECTS(!attachment_, "trial ", trial_, " calls attach() twice; call it once with all tensors");
    attachment_ = std::move(attachment);
    if (!evaluator_.checkpoints_.has(trial_)) return 0;
    evaluator_.checkpoints_.restore(trial_, *attachment_);
    return step_;
  }

  void process_messages() override {
    if (listener_.process_messages) watched(listener_.process_messages);
  }

  Verdict verdict() const { return verdict_; }
  double last() const { return last_->value; }
  /// The exception of a failure of the search itself rather than of the trial, such as a full disk or the end of another worker; null: none.
  const std::exception_ptr& broken() const { return broken_; }

 private:
  template <class Call>
  void watched(const Call& call) {
    try {
      call();
    } catch (...) {
      broken_ = std::current_exception();
      throw;
    }
  }

  void capture() {
    if (attachment_) evaluator_.checkpoints_.capture(trial_, *attachment_);
    TW_EXPECTS(attachment_ || evaluator_.layout_ == nullptr,
               "the objective attaches no tensors, but trials of a population copy each other's tensors: call Trial::attach()");
  }

  Evaluator& evaluator_;
  int64_t trial_;
  int64_t step_;
  const Listener& listener_;
  std::optional<Attachment> attachment_;
  Verdict verdict_ = Verdict::go_on;
  std::optional<Report> last_;
  std::exception_ptr broken_;
};

Evaluator::Evaluator(const Communicator& worker, const Space& space, const Objective& objective, uint64_t seed, size_t objectives)
    : team_(worker), space_(space), objective_(objective), seed_(seed), objectives_(objectives) {}

void Evaluator::connect(const Communicator& all, const Layout& layout) {
  layout_ = &layout;
  checkpoints_.connect(all);
}

void Evaluator::give(const Order& order, const std::vector<double>& values) {
  if (team_.size() == 1) return;
  std::vector<double> numbers{std::bit_cast<double>(order.kind), std::bit_cast<double>(order.trial), std::bit_cast<double>(order.other)};
  numbers.insert(numbers.end(), values.begin(), values.end());
  numbers.resize(numbers_of_an_order + space_.size());
  broadcast_patiently(team_.ranks(), std::as_writable_bytes(std::span(numbers)));
}

void Evaluator::serve() {
  std::vector<double> numbers(numbers_of_an_order + space_.size());
  while (true) {
    broadcast_patiently(team_.ranks(), std::as_writable_bytes(std::span(numbers)));
    const Order order{
        .kind = std::bit_cast<Kind>(numbers[0]), .trial = std::bit_cast<int64_t>(numbers[1]), .other = std::bit_cast<int64_t>(numbers[2])};
    switch (order.kind) {
      case Kind::dismiss: return;
      case Kind::evaluate: run(order.trial, {numbers.begin() + numbers_of_an_order, numbers.end()}, order.other, {}); break;
      case Kind::copy:
      case Kind::send:
      case Kind::receive: execute(order);
    }
  }
}

void Evaluator::execute(const Order& order) {
  if (order.kind == Kind::copy) checkpoints_.copy(order.other, order.trial);
  const int worker = static_cast<int>(order.other);
  if (order.kind == Kind::send) {
    for (int rank = team_.ranks().rank(); rank < layout_->ranks_of(worker); rank += team_.size())
      checkpoints_.send(order.trial, layout_->first_rank(worker) + rank);
  }
  if (order.kind == Kind::receive) checkpoints_.receive(layout_->first_rank(worker) + team_.ranks().rank() % layout_->ranks_of(worker), order.trial);
}

Evaluation Evaluator::evaluate(int64_t trial, const std::vector<double>& values, int64_t step, const Listener& listener) {
  give({.kind = Kind::evaluate, .trial = trial, .other = step}, values);
  return run(trial, values, step, listener);
}

void Evaluator::copy(int64_t original, int64_t trial) {
  const Order order{.kind = Kind::copy, .trial = trial, .other = original};
  give(order);
  execute(order);
}

void Evaluator::send(int64_t trial, int worker) {
  const Order order{.kind = Kind::send, .trial = trial, .other = worker};
  give(order);
  execute(order);
}

void Evaluator::receive(int worker, int64_t trial) {
  const Order order{.kind = Kind::receive, .trial = trial, .other = worker};
  give(order);
  execute(order);
}

void Evaluator::dismiss() { give({.kind = Kind::dismiss}); }

Evaluation Evaluator::run(int64_t trial, const std::vector<double>& values, int64_t step, const Listener& listener) {
  const Stopwatch watch;
  Evaluation evaluation;
  Running running(*this, trial, step, listener);
  Trial asked(team_.trial(), trial, seed_, running);
  const Configuration configuration(space_, values);
  std::optional<Outcome> outcome;
  const std::exception_ptr thrown = together(configuration, asked, outcome);
  const std::vector<RankFailure> failures = failures_on_all_ranks(team_.ranks(), [&] {
    if (thrown) std::rethrow_exception(thrown);
  });
  if (!failures.empty()) {
    evaluation.state = TrialState::failed;
    evaluation.message = beginning_of(message_of(failures, team_.ranks()));
  }
  team_.renew_revoked();
  evaluation.seconds = watch.elapsed().count();
  if (evaluation.state != TrialState::failed) {
    evaluation.paused = running.verdict() == Verdict::pause;
    if (running.verdict() == Verdict::stop) {
      evaluation.state = TrialState::pruned;
      outcome->values = {running.last()};
    }
    if (!evaluation.paused) judge(*outcome, objectives_, evaluation);
  }
  if (!evaluation.paused) checkpoints_.forget(trial);
  if (running.broken()) std::rethrow_exception(running.broken());
  return evaluation;
}

/// Calls the objective, waits until all ranks of the team have returned from it, and returns what it threw here.
std::exception_ptr Evaluator::together(const Configuration& configuration, Trial& trial, std::optional<Outcome>& outcome) const {
  const auto evaluate = [&] { outcome = objective_(configuration, trial); };
  std::exception_ptr thrown;
  try {
    if (team_.size() == 1) {
      evaluate();
    } else {
      mpi::set_activity(team_.trial(), concat("trial ", trial.number(), ": ", configuration.describe()));
      revoke_on_exception(team_.trial(), evaluate);
    }
  } catch (...) {
    thrown = std::current_exception();
  }
  // On a communicator that is never revoked.
  if (team_.size() > 1) wait_patiently(mpi::start(team_.ranks(), {.collective = Collective::barrier}, mpi::barrier_transfer(team_.ranks())));
  return thrown;
}

}  // namespace tw::search
