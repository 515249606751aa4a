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

/// What an objective found: a number, or one for each of SearchOptions::objectives. Smaller is better. NaN: the trial has failed.
struct Outcome {
  // NOLINTBEGIN(google-explicit-constructor): objectives return numbers, or `return {error, seconds};`
  Outcome(double value) : values{value} {}
  Outcome(std::initializer_list<double> all) : values(all) {}
  Outcome(std::vector<double> all) : values(std::move(all)) {}
  // NOLINTEND(google-explicit-constructor)

  /// The same, allowed only if each of these is at most 0: `return Outcome(error).constrained({bytes - limit});`. Where one is above, the trial is
  /// infeasible, and counts as the better the smaller the sum of what is above 0; its values need not be finite then.
  Outcome constrained(std::vector<double> them) && {
    constraints = std::move(them);
    return std::move(*this);
  }

  std::vector<double> values;
  std::vector<double> constraints = {};
};

/// What an objective has besides its configuration. All ranks of its worker call the objective together, with the same configuration.
class Trial {
 public:
  /// Whoever runs it.
  class Host {
   public:
    virtual ~Host() = default;
    virtual bool report(int64_t step, double value) = 0;
    virtual int64_t attach(Attachment attachment) = 0;
    virtual void attend() = 0;
  };
  Trial(const Communicator& comm, int64_t number, uint64_t seed, Host& host) : comm_(comm), number_(number), seed_(seed), host_(host) {}

  /// The ranks of this worker, for any strategy. Revoked when the objective throws on one of them: the others' waits end, and the trial has failed.
  const Communicator& comm() const noexcept { return comm_; }
  /// Unique in the search, the same when a trial is repeated.
  int64_t number() const noexcept { return number_; }
  /// Random numbers of this trial alone, the same on all of its ranks, and from the first one at each call.
  CounterRng rng() const noexcept { return CounterRng(seed_, stream | static_cast<uint64_t>(number_)); }

  /// What the trial has reached at a step: an epoch, or whatever ascends. The first rank's value counts. Collective over comm().
  /// @return whether to go on; otherwise return soon, and further reports are passed over. The trial is pruned then, and this value is its loss; or,
  /// where trials pause, the objective is called again when it is to go on
  /// @throws ContractError unless steps ascend
  bool report(int64_t step, double value) { return host_.report(step, value); }

  /// Registers what the trial needs to resume after a pause: tensors that it changes between reports, besides what its configuration and step imply.
  /// Once, when all of it exists, and before the first report. Where the trial resumes, the tensors get the values that they had before it, or that
  /// those of the copied trial had. On all ranks of the worker, each with its own.
  /// @return the step after which it resumes: 0 for a trial that begins
  /// @throws ContractError for tensors of other names, shapes or types than those that they are to get
  int64_t attach(Attachment attachment) { return host_.attach(std::move(attachment)); }
  int64_t attach(std::vector<NamedTensor> tensors) { return attach(attachment_of(std::move(tensors))); }
  int64_t attach(const torch::nn::Module& module, torch::optim::Optimizer& optimizer) { return attach(attachment_of(module, optimizer)); }

  /// For an objective that only waits, such as for another program: takes in and answers what other workers have sent. Every 50 ms will do. Not
  /// collective; nothing happens but on the first rank.
  void attend() { host_.attend(); }

 private:
  static constexpr uint64_t stream = uint64_t{1} << 62;  // of the random numbers; those of breeding are below

  const Communicator& comm_;
  int64_t number_;
  uint64_t seed_;
  Host& host_;
};

/// May throw: the trial has failed then, with the message, and the search goes on.
using Objective = std::function<Outcome(const Configuration&, Trial&)>;

}  // namespace tw::search
