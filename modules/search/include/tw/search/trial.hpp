// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <tw/base/random.hpp>
#include <tw/evolution/configuration.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/search/attachment.hpp>
#include <utility>
#include <vector>

namespace tw::search {

/// The result of an objective: one number, or one for each of SearchOptions::objectives. Smaller is better. If a number is NaN or infinite, the trial
/// has failed.
struct Outcome {
  // NOLINTBEGIN(google-explicit-constructor): objectives return numbers, or `return {error, seconds};`
  Outcome(double value) : values{value} {}
  Outcome(std::initializer_list<double> all) : values(all) {}
  Outcome(std::vector<double> all) : values(std::move(all)) {}
  // NOLINTEND(google-explicit-constructor)

  /// Adds the values of constraints: `return Outcome(error).constrained({bytes - limit});`. A constraint is met if its value is at most 0. If any
  /// value is positive, the trial is infeasible. Infeasible trials rank by the sum of their positive constraint values, and their objectives need not
  /// be finite.
  Outcome constrained(std::vector<double> them) && {
    constraints = std::move(them);
    return std::move(*this);
  }

  std::vector<double> values;
  std::vector<double> constraints = {};
};

/// The second argument of an objective, after the configuration. All ranks of a worker call the objective together, with the same configuration.
class Trial {
 public:
  /// Interface to the code that runs the trial.
  class Host {
   public:
    virtual ~Host() = default;
    virtual bool report(int64_t step, double value) = 0;
    virtual int64_t attach(Attachment attachment) = 0;
    virtual void process_messages() = 0;
  };
  Trial(const Communicator& comm, int64_t number, uint64_t seed, Host& host) : comm_(comm), number_(number), seed_(seed), host_(host) {}

  /// The ranks of the trial's worker, for any training strategy. If the objective throws on one rank, this communicator is revoked: waits on the
  /// other ranks throw RevokedError, and the trial has failed.
  const Communicator& comm() const noexcept { return comm_; }
  /// Unique in the search; unchanged when a trial is repeated.
  int64_t number() const noexcept { return number_; }
  /// This trial's own random numbers, the same on all ranks of the worker. Each call returns the sequence from its beginning.
  CounterRng rng() const noexcept { return CounterRng(seed_, stream | static_cast<uint64_t>(number_)); }

  /// Reports the trial's value at a step, such as an epoch; steps must ascend. The value on the worker's first rank counts. Collective over comm().
  /// @return whether to continue. If false, return from the objective soon; further reports are ignored. Either the trial is pruned, with this value
  /// as its loss, or it is paused. If the search resumes a paused trial, it calls the objective again. A trial that is still paused when the search
  /// ends is pruned, with its last value as its loss
  /// @throws ContractError unless steps ascend
  bool report(int64_t step, double value) { return host_.report(step, value); }

  /// Registers what the trial needs to resume after a pause: tensors that it changes between reports and that its configuration and step do not
  /// determine. Call it once in each call of the objective, before the first report, when all tensors exist. Call it on all ranks of the worker, each
  /// with its own tensors. When the trial resumes, attach() restores the values of these tensors, or copies those of another trial from which this
  /// one continues (population-based training).
  /// @return the step after which the trial resumes; 0 for a new trial
  /// @throws ContractError if names, shapes or types differ from those of the stored tensors
  int64_t attach(Attachment attachment) { return host_.attach(std::move(attachment)); }
  int64_t attach(std::vector<NamedTensor> tensors) { return attach(attachment_of(std::move(tensors))); }
  int64_t attach(const torch::nn::Module& module, torch::optim::Optimizer& optimizer) { return attach(attachment_of(module, optimizer)); }

  /// Receives and answers messages of other workers. Call it about every 50 ms in an objective that only waits, for example for another program. Not
  /// collective; does nothing except on the first rank.
  void process_messages() { host_.process_messages(); }

 private:
  static constexpr uint64_t stream = uint64_t{1} << 62;  // first stream of trials' random numbers; those of proposals are below

  const Communicator& comm_;
  int64_t number_;
  uint64_t seed_;
  Host& host_;
};

/// The function that a search minimises. If it throws, the trial has failed with the exception's message, and the search continues.
using Objective = std::function<Outcome(const Configuration&, Trial&)>;

}  // namespace tw::search
