// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <tw/base/random.hpp>
#include <tw/evolution/configuration.hpp>
#include <tw/mpi/communicator.hpp>

namespace tw::search {

/// What an objective found; smaller is better. NaN: the trial has failed.
struct Outcome {
  Outcome(double value) : loss(value) {}  // NOLINT(google-explicit-constructor): objectives return numbers
  double loss;
};

/// What an objective has besides its configuration. All ranks of its worker call the objective together, with the same configuration.
class Trial {
 public:
  using Reporting = std::function<bool(int64_t step, double value)>;
  using Attending = std::function<void()>;
  Trial(const Communicator& comm, int64_t number, uint64_t seed, Reporting reporting, Attending attending = {})
      : comm_(comm), number_(number), seed_(seed), reporting_(std::move(reporting)), attending_(std::move(attending)) {}

  /// The ranks of this worker, for any strategy. Revoked when the objective throws on one of them: the others' waits end, and the trial has failed.
  const Communicator& comm() const noexcept { return comm_; }
  /// Unique in the search, the same when a trial is repeated.
  int64_t number() const noexcept { return number_; }
  /// Random numbers of this trial alone, the same on all of its ranks.
  CounterRng rng() const noexcept { return CounterRng(seed_, stream | static_cast<uint64_t>(number_)); }

  /// What the trial has reached at a step: an epoch, or whatever ascends. The first rank's value counts. Collective over comm().
  /// @return whether to go on; otherwise return soon: the trial is pruned, this value is its loss, and further reports are passed over
  /// @throws ContractError unless steps ascend
  bool report(int64_t step, double value) { return reporting_(step, value); }
  /// For an objective that only waits, such as for another program: takes in and answers what other workers have sent. Every 50 ms will do. Not
  /// collective; nothing happens but on the first rank.
  void attend() {
    if (attending_) attending_();
  }

 private:
  static constexpr uint64_t stream = uint64_t{1} << 62;  // of the random numbers; those of breeding are below

  const Communicator& comm_;
  int64_t number_;
  uint64_t seed_;
  Reporting reporting_;
  Attending attending_;
};

/// May throw: the trial has failed then, with the message, and the search goes on.
using Objective = std::function<Outcome(const Configuration&, Trial&)>;

}  // namespace tw::search
