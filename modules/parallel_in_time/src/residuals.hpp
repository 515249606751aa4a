// SPDX-License-Identifier: Apache-2.0
// Residual norms over all ranks, and the decisions based on them.
#pragma once
#include <optional>
#include <tw/base/option.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/parallel_in_time/solver.hpp>
#include <vector>

namespace tw::layer_parallel {

/// The relative rounding error of a residual: its norm over the norm of the values, for a step from such states.
double rounding_of(const State& states);

/// The sum of the squares of all components of stacked states, a float64 scalar.
at::Tensor sum_of_squares(const State& states);

/// Whether each rank's state is finite, for all ranks. Collective.
bool is_finite(const Communicator& comm, const State& state);

/// Adds the costs in `other` to `to`, level by level.
void add_costs(Report& to, const Report& other);

void visit_residuals(bool& residuals, OnDivergence& on_divergence, OptionVisitor& visitor);

/// Watches the iterations of a solution, and fills in its report. If no decision depends on residuals, all of them are reduced over the ranks
/// together at the end, so that no rank waits for the others after an iteration.
class ResidualWatch {
 public:
  struct Rules {
    double tolerance = 0;
    OnDivergence on_divergence = OnDivergence::report;
    double rounding = 0;  ///< see rounding_of()
  };
  ResidualWatch(const Communicator& comm, const Rules& rules, Report& report) : comm_(comm), rules_(rules), report_(report) {}

  /// Whether a decision depends on the residual of an iteration.
  bool decides() const noexcept { return rules_.tolerance > 0 || rules_.on_divergence != OnDivergence::report; }
  /// Adds an iteration; collective if decides(). @param squares this rank's sums of squares of the residual and of the values it belongs to, [2];
  /// none: not computed @return whether to stop, because the residual is below the tolerance or not finite
  bool add(const std::optional<at::Tensor>& squares);
  /// Collective. @param squares this rank's sum of squares of the solution
  void finish(const at::Tensor& squares);
  /// Whether the solution is finite, according to finish().
  bool finite() const noexcept { return finite_; }
  /// Whether the last residual is below the tolerance.
  bool below() const;

 private:
  /// Norms over all ranks.
  at::Tensor over_ranks(const at::Tensor& squares) const;
  void judge(size_t iteration, const at::Tensor& norms);

  const Communicator& comm_;
  const Rules rules_;
  Report& report_;
  std::vector<at::Tensor> waiting_;
  bool finite_ = true;
};

}  // namespace tw::layer_parallel
