// SPDX-License-Identifier: Apache-2.0
#include "judgement.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tw/base/concat.hpp>

namespace tw::search {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Why the outcome is invalid; empty if it is valid. If it violates constraints, its values need not be finite.
std::string problem_of(const Outcome& outcome, size_t objectives, double violation) {
  const size_t count = outcome.values.size();
  if (count != objectives && (objectives > 0 || count == 0))
    return concat("the objective returns ", count, " values; expected ", std::max<size_t>(1, objectives));
  if (!std::isfinite(violation)) return "a constraint's value is not finite";
  if (violation > 0) return "";
  const auto wrong = std::ranges::find_if_not(outcome.values, [](double each) { return std::isfinite(each); });
  if (wrong == outcome.values.end()) return "";
  return count == 1 ? concat("the loss is ", *wrong) : concat("objective ", wrong - outcome.values.begin() + 1, " of ", count, " is ", *wrong);
}

double violation_of(const Outcome& outcome) {
  double violation = 0;
  for (const double each : outcome.constraints) violation += std::isnan(each) ? each : std::max(0.0, each);
  return violation;
}

/// "violates constraint 1, 3". The report of failures counts such messages.
std::string violations_in(const Outcome& outcome) {
  std::string text;
  for (size_t i = 0; i < outcome.constraints.size(); ++i) {
    if (outcome.constraints[i] > 0) text += concat(text.empty() ? "violates constraint " : ", ", i + 1);
  }
  return text;
}

}  // namespace

void judge(const Outcome& outcome, size_t objectives, Evaluation& evaluation) {
  evaluation.constraints = outcome.constraints;
  evaluation.violation = violation_of(outcome);
  evaluation.message = problem_of(outcome, objectives, evaluation.violation);
  if (!evaluation.message.empty()) {
    evaluation.state = TrialState::failed;
    evaluation.violation = 0;
    return;
  }
  std::vector<double> values = outcome.values;
  if (evaluation.violation > 0) {
    evaluation.state = TrialState::infeasible;
    evaluation.message = violations_in(outcome);
    for (double& each : values) each = std::isfinite(each) ? each : infinity;
  }
  evaluation.loss = values.front();
  if (values.size() > 1) evaluation.objectives = std::move(values);
}

}  // namespace tw::search
