// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <tw/comm/agreement.hpp>
#include <tw/evolution/individual.hpp>
#include <tw/search/trial.hpp>
#include <vector>

#include "checkpoints.hpp"
#include "layout.hpp"
#include "team.hpp"
#include "verdict.hpp"

namespace tw::search {

/// How an evaluation ended.
struct Evaluation {
  double loss = std::numeric_limits<double>::infinity();
  std::vector<double> objectives = {};   ///< see Individual
  double violation = 0;                  ///< see Individual
  std::vector<double> constraints = {};  ///< see Outcome
  TrialState state = TrialState::complete;
  double seconds = 0;
  std::string message = {};  ///< why it failed or is infeasible
  bool paused = false;       ///< it has not ended; of the fields above, only `seconds` is set
};

/// The ranks of one worker, which evaluate together. The first rank gives orders, and the others carry them out in serve().
class Evaluator {
 public:
  /// Called on the first rank while a trial runs.
  struct Listener {
    std::function<Verdict(int64_t step, double value)> report = {};
    std::function<void()> process_messages = {};
  };

  /// Collective over `worker`. @param space, objective borrowed. @param objectives their number; 0: any number of at least one
  Evaluator(const Communicator& worker, const Space& space, const Objective& objective, uint64_t seed, size_t objectives = 0);
  /// Lets trials copy each other's tensors across ranks, so each trial must attach them (Trial::attach). Collective over `all` ranks of the search.
  /// @param layout borrowed
  void connect(const Communicator& all, const Layout& layout);

  bool leads() const { return team_.leads(); }

  // For the first rank. The other ranks do the same in serve(), each with its own tensors.

  /// @param step step after which the trial resumes; 0: it begins
  /// @throws what the listener throws; the objective's failures are returned
  Evaluation evaluate(int64_t trial, const std::vector<double>& values, int64_t step, const Listener& listener);
  /// Transfers the tensors of paused trials, see Checkpoints. If workers have different numbers of ranks, rank q of the receiving worker gets the
  /// tensors of rank q mod n of the n sending ranks.
  void copy(int64_t original, int64_t trial);
  void send(int64_t trial, int worker);
  void receive(int worker, int64_t trial);
  /// Makes the other ranks return from serve().
  void dismiss();

  /// For the other ranks: carries out orders until dismiss().
  void serve();

 private:
  class Running;
  enum class Kind : int64_t { evaluate, copy, send, receive, dismiss };
  /// An action that the first rank has all ranks of the worker perform.
  struct Order {
    Kind kind = Kind::dismiss;
    int64_t trial = 0;
    int64_t other = 0;  ///< original, worker or step
  };

  void give(const Order& order, const std::vector<double>& values = {});
  void execute(const Order& order);
  Evaluation run(int64_t trial, const std::vector<double>& values, int64_t step, const Listener& listener);
  std::exception_ptr together(const Configuration& configuration, Trial& trial, std::optional<Outcome>& outcome) const;

  Team team_;
  const Layout* layout_ = nullptr;  // null: not connected
  const Space& space_;
  const Objective& objective_;
  uint64_t seed_;
  size_t objectives_;
  Checkpoints checkpoints_;
};

}  // namespace tw::search
