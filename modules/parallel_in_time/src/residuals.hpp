// SPDX-License-Identifier: Apache-2.0
// What the residuals of all ranks are, and what follows from them.
#pragma once
#include <optional>
#include <tw/base/option.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/parallel_in_time/solver.hpp>
#include <vector>

namespace tw::layer_parallel {

/// Of a step from states like these, how large the part of a residual over the norm of the values may be that is rounding.
double rounding_of(const State& states);

/// The sum of the squares of all components of stacked states: float64, a number.
at::Tensor sum_of_squares(const State& states);

/// Whether the states of all ranks are finite, each rank's own. Collective.
bool is_finite(const Communicator& comm, const State& state);

/// What `other` cost is added to `to`, level by level.
void add_costs(Report& to, const Report& other);

void visit_residuals(bool& residuals, OnDivergence& on_divergence, OptionVisitor& visitor);

/// Looks at the iterations of a solution, and fills in what its report says of them. Where nothing depends on residuals, those of all iterations are
/// put together at the end, so that no rank waits for all others after an iteration.
class ResidualWatch {
 public:
  struct Rules {
    double tolerance = 0;
    OnDivergence on_divergence = OnDivergence::report;
    double rounding = 0;  ///< see rounding_of()
  };
  ResidualWatch(const Communicator& comm, const Rules& rules, Report& report) : comm_(comm), rules_(rules), report_(report) {}

  /// Whether something depends on the residual of an iteration.
  bool decides() const noexcept { return rules_.tolerance > 0 || rules_.on_divergence != OnDivergence::report; }
  /// After an iteration; collective where it decides. @param squares this rank's sums of squares of the residual and of the values that it belongs
  /// to, [2]; none: not computed @return whether to stop: it is below the tolerance, or not finite
  bool add(const std::optional<at::Tensor>& squares);
  /// Collective. @param squares this rank's sum of squares of the solution
  void finish(const at::Tensor& squares);
  /// Whether the solution is finite, as finish() found.
  bool finite() const noexcept { return finite_; }
  /// Whether the last residual is below the tolerance.
  bool below() const;

 private:
  /// The norms over all ranks.
  at::Tensor over_ranks(const at::Tensor& squares) const;
  void judge(size_t iteration, const at::Tensor& norms);

  const Communicator& comm_;
  const Rules rules_;
  Report& report_;
  std::vector<at::Tensor> waiting_;
  bool finite_ = true;
};

}  // namespace tw::layer_parallel
