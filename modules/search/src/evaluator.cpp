// SPDX-License-Identifier: Apache-2.0
#include "evaluator.hpp"

#include <bit>
#include <cmath>
#include <exception>
#include <limits>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/objects.hpp>
#include <tw/evolution/stopping.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/error.hpp>

namespace tw::search {
namespace {

constexpr double failed_loss = std::numeric_limits<double>::infinity();
constexpr int64_t nothing_more = -1;

}  // namespace

Evaluator::Evaluator(const Communicator& worker, const Space& space, const Objective& objective, uint64_t seed)
    : worker_(worker.dup()), trial_(worker_.dup()), space_(space), objective_(objective), seed_(seed) {}

/// Others may evaluate for long before they say what is next: no stall, so each wait is a short one.
void Evaluator::broadcast_patiently(void* data, int64_t bytes) {
  const mpi::Buffer buffer{data, bytes, ElementType::uint8};
  Work work =
      mpi::start(worker_, {.collective = Collective::broadcast, .peer = 0, .count = bytes}, mpi::broadcast_transfer(worker_, buffer, Rank(0)));
  while (!work.wait_for(std::chrono::seconds(1))) {
  }
}

bool Evaluator::agree(const Communicator& comm, bool value) {
  auto flag = static_cast<uint8_t>(value);
  mpi::broadcast(comm, {&flag, 1, ElementType::uint8}, Rank(0));
  return flag != 0;
}

Evaluation Evaluator::evaluate(int64_t trial, const std::vector<double>& values, const Trial::Reporting& reporting,
                               const Trial::Attending& attending) {
  if (worker_.size() > 1) {
    std::vector<double> order{std::bit_cast<double>(trial)};
    order.insert(order.end(), values.begin(), values.end());
    broadcast_patiently(order.data(), static_cast<int64_t>(order.size() * sizeof(double)));
  }
  std::exception_ptr broken;  // not the trial, but the search itself: a full disk, another worker's end
  const auto watched = [&](const auto& call) {
    try {
      return call();
    } catch (...) {
      broken = std::current_exception();
      throw;
    }
  };
  Evaluation evaluation = run(
      trial, values, [&](int64_t step, double value) { return watched([&] { return reporting(step, value); }); }, [&] { watched(attending); });
  if (broken) std::rethrow_exception(broken);
  return evaluation;
}

void Evaluator::dismiss() {
  if (worker_.size() == 1) return;
  std::vector<double> order(space_.size() + 1, std::bit_cast<double>(nothing_more));
  broadcast_patiently(order.data(), static_cast<int64_t>(order.size() * sizeof(double)));
}

void Evaluator::serve() {
  std::vector<double> order(space_.size() + 1);
  while (true) {
    broadcast_patiently(order.data(), static_cast<int64_t>(order.size() * sizeof(double)));
    const auto trial = std::bit_cast<int64_t>(order.front());
    if (trial == nothing_more) return;
    run(trial, {order.begin() + 1, order.end()}, {}, {});
  }
}

Evaluation Evaluator::run(int64_t trial, const std::vector<double>& values, const Trial::Reporting& reporting, const Trial::Attending& attending) {
  const Stopwatch watch;
  Evaluation evaluation;
  std::optional<Report> last;
  bool stopped = false;
  const Communicator& comm = *trial_;
  const auto report = [&](int64_t step, double value) {
    if (stopped) return false;
    TW_EXPECTS(!last || step > last->step, "the steps of a trial's reports ascend: got ", step, " behind ", last->step);
    last = {trial, step, value};
    const bool goes_on = comm.rank() == 0 && reporting(step, value);
    stopped = !(comm.size() > 1 ? agree(comm, goes_on) : goes_on);
    return !stopped;
  };
  Trial asked(comm, trial, seed_, report, attending);
  try {
    evaluation.loss = objective_(Configuration(space_, values), asked).loss;
  } catch (const RevokedError&) {  // another rank of the worker says why
    evaluation.state = TrialState::failed;
  } catch (const std::exception& error) {
    evaluation.state = TrialState::failed;
    evaluation.message = error.what();
    if (evaluation.message.empty()) evaluation.message = "an exception without a message";
  } catch (...) {
    evaluation.state = TrialState::failed;
    evaluation.message = "an exception of a type of its own";
  }
  if (comm.size() > 1) {
    if (evaluation.state == TrialState::failed && !comm.revoked()) comm.revoke(evaluation.message);
    // All meet where nothing is revoked: whether the trial failed anywhere, and why.
    const std::string mine = evaluation.state == TrialState::failed ? "!" + evaluation.message : "";
    const std::vector<std::string> all = allgather_strings(worker_, mine);
    bool failed = false;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      failed = failed || !all[rank].empty();
      if (all[rank].size() > 1 && evaluation.message.empty()) evaluation.message = concat("rank ", rank, " of its worker: ", all[rank].substr(1));
    }
    if (failed) {
      evaluation.state = TrialState::failed;
      std::vector<Rank> members;
      for (int rank = 0; rank < worker_.size(); ++rank) members.emplace_back(rank);
      trial_ = worker_.subset(members);
    }
  }
  evaluation.seconds = watch.elapsed().count();
  if (evaluation.state != TrialState::failed) {
    if (stopped) {
      evaluation.state = TrialState::pruned;
      evaluation.loss = last->value;
    }
    if (!std::isfinite(evaluation.loss)) {
      evaluation.state = TrialState::failed;
      evaluation.message = concat("the loss is ", evaluation.loss);
    }
  }
  if (evaluation.state == TrialState::failed) evaluation.loss = failed_loss;
  return evaluation;
}

}  // namespace tw::search
