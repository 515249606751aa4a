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
  std::vector<double> objectives = {};   ///< as Individual has them
  double violation = 0;                  ///< likewise
  std::vector<double> constraints = {};  ///< as Outcome has them
  TrialState state = TrialState::complete;
  double seconds = 0;
  std::string message = {};  ///< why it failed, or is infeasible
  bool paused = false;       ///< it has not ended; nothing of the above but its seconds
};

/// The ranks of one worker, which evaluate together: the first one says what, the others serve.
class Evaluator {
 public:
  /// What the first rank does while a trial runs.
  struct Listener {
    std::function<Verdict(int64_t step, double value)> report = {};
    std::function<void()> attend = {};
  };

  /// Collective over `worker`. @param space, objective borrowed. @param objectives their number; 0: any, as long as there is one
  Evaluator(const Communicator& worker, const Space& space, const Objective& objective, uint64_t seed, size_t objectives = 0);
  /// Trials copy each other's tensors across ranks, so each must attach what it carries (Trial::attach). Collective over `all` ranks of the search.
  /// @param layout borrowed
  void connect(const Communicator& all, const Layout& layout);

  bool leads() const { return team_.leads(); }

  // On the first rank. The others do the same meanwhile, each with its own part.

  /// @param step after which the trial resumes; 0: it begins
  /// @throws what the listener throws; the objective's failures are returned
  Evaluation evaluate(int64_t trial, const std::vector<double>& values, int64_t step, const Listener& listener);
  /// What paused trials carry: see Checkpoints. Where workers have different numbers of ranks, rank q of the one that receives gets what rank q mod n
  /// of the n that send has.
  void copy(int64_t original, int64_t trial);
  void send(int64_t trial, int worker);
  void receive(int worker, int64_t trial);
  /// The others return from serve().
  void dismiss();

  /// On the others.
  void serve();

 private:
  class Running;
  enum class Kind : int64_t { evaluate, copy, send, receive, dismiss };
  /// What the first rank has the others do with it.
  struct Order {
    Kind kind = Kind::dismiss;
    int64_t trial = 0;
    int64_t other = 0;  ///< original, worker or step
  };

  void give(const Order& order, const std::vector<double>& values = {});
  void carry_out(const Order& order);
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
