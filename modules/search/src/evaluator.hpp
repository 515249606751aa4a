// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <functional>
#include <limits>
#include <map>
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
  using Workers = std::vector<int32_t>;

  /// What the first rank does while a trial runs.
  struct Listener {
    std::function<Verdict(int64_t step, double value)> report = {};
    std::function<void()> attend = {};  ///< of a worker that helps, too
  };

  /// Collective over `worker`. @param space, objective borrowed. @param objectives their number; 0: any, as long as there is one
  Evaluator(const Communicator& worker, const Space& space, const Objective& objective, uint64_t seed, size_t objectives = 0);
  /// What must hold of what trials carry. @see Trial::attach
  struct Demands {
    bool attached = false;  ///< they go on from where others are, so that each must say what it carries
    bool whole = false;     ///< they go on on other numbers of ranks, so that none may hold a part of a tensor
  };
  /// What trials carry goes from rank to rank, and ranks of several workers evaluate together. Collective over `all` ranks of the search.
  /// @param layout borrowed
  void connect(const Communicator& all, const Layout& layout, Demands demands);

  bool leads() const { return own_.leads(); }

  // On the first rank. The others do the same meanwhile, each with its own part.

  /// @param step behind which it goes on; 0: it begins. @param workers this one, and those that help() meanwhile; none: this one alone
  /// @throws what the listener throws; the objective's failures are returned
  Evaluation evaluate(int64_t trial, const std::vector<double>& values, int64_t step, const Listener& listener, const Workers& workers = {});
  /// Takes part in an evaluation of the first of these workers.
  void help(const Workers& workers, const Listener& listener);
  /// What paused trials carry: see Checkpoints. Where workers have different numbers of ranks, rank q of the one that receives gets what rank q mod n
  /// of the n that send has.
  void copy(int64_t original, int64_t trial);
  void send(int64_t trial, int worker);
  void receive(int worker, int64_t trial);
  /// The others return from serve().
  void dismiss();

  /// On the others.
  void serve() { serve(own_, {}); }

 private:
  class Running;
  enum class Kind : int64_t { evaluate, copy, send, receive, join, share, dismiss };
  /// What the first rank has the others do with it.
  struct Order {
    Kind kind = Kind::dismiss;
    int64_t trial = 0;
    int64_t other = 0;  ///< original, worker, step or number of workers
  };

  void give(const Team& team, const Order& order, const std::vector<double>& values = {});
  void serve(Team& team, const Listener& listener);
  void carry_out(const Order& order);
  Evaluation run(Team& team, int64_t trial, const std::vector<double>& values, int64_t step, const Listener& listener);
  std::exception_ptr together(const Team& team, const Configuration& configuration, Trial& trial, std::optional<Outcome>& outcome) const;

  // Teams of several workers.
  Team& join(const Workers& workers);
  Team& team_of(const Workers& workers);
  void share(const Team& team, int64_t trial);

  Team own_;
  const Layout* layout_ = nullptr;  // of those that it is connected with
  const Space& space_;
  const Objective& objective_;
  uint64_t seed_;
  size_t objectives_;
  std::optional<Communicator> all_;  // likewise
  std::map<Workers, Team> teams_;    // those that there were: each is made once
  Checkpoints checkpoints_;
  Demands demands_;
};

}  // namespace tw::search
