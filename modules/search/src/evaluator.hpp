// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <tw/evolution/individual.hpp>
#include <tw/search/trial.hpp>

namespace tw::search {

/// How an evaluation ended.
struct Evaluation {
  double loss = 0;
  TrialState state = TrialState::complete;
  double seconds = 0;
  std::string message = {};  ///< why it failed
};

/// The ranks of one worker, which evaluate together: the first one says what, the others serve.
class Evaluator {
 public:
  /// Collective over `worker`. @param space, objective borrowed
  Evaluator(const Communicator& worker, const Space& space, const Objective& objective, uint64_t seed);

  bool leads() const { return worker_.rank() == 0; }
  /// On the first rank. @param reporting whether to go on. @throws what `reporting` and `attending` throw; the objective's failures are returned
  Evaluation evaluate(int64_t trial, const std::vector<double>& values, const Trial::Reporting& reporting, const Trial::Attending& attending);
  /// On the first rank: the others return from serve().
  void dismiss();
  /// On the others.
  void serve();

 private:
  Evaluation run(int64_t trial, const std::vector<double>& values, const Trial::Reporting& reporting, const Trial::Attending& attending);
  void broadcast_patiently(void* data, int64_t bytes);
  bool agree(const Communicator& comm, bool value);

  Communicator worker_;                // never revoked by an objective
  std::optional<Communicator> trial_;  // what objectives get
  const Space& space_;
  const Objective& objective_;
  uint64_t seed_;
};

}  // namespace tw::search
