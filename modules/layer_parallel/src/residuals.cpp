// SPDX-License-Identifier: Apache-2.0
#include "residuals.hpp"

#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tw/comm/collectives.hpp>

namespace tw::layer_parallel {
namespace {

/// The distance from 1 to the next number; 0 of integers.
double epsilon_of(c10::ScalarType dtype) {
  switch (c10::toRealValueType(dtype)) {
    case at::kDouble: return std::numeric_limits<double>::epsilon();
    case at::kFloat: return std::numeric_limits<float>::epsilon();
    case at::kHalf: return std::numeric_limits<c10::Half>::epsilon();
    case at::kBFloat16: return std::numeric_limits<c10::BFloat16>::epsilon();
    default: return 0;
  }
}

/// Whether the last residual is larger than the one before, by more than rounding, or not finite.
bool has_grown(const std::vector<std::optional<double>>& residuals, double rounding) {
  const std::optional<double>& last = residuals.back();
  if (!last) return false;
  if (!std::isfinite(*last)) return true;
  const std::optional<double> before = residuals.size() > 1 ? residuals[residuals.size() - 2] : std::nullopt;
  return before && *last > *before && *last > rounding;
}

}  // namespace

double rounding_of(const State& states) {
  double epsilon = 0;
  for (const at::Tensor& tensor : states) epsilon = std::max(epsilon, epsilon_of(tensor.scalar_type()));
  constexpr double roundings_in_a_step = 100;
  return roundings_in_a_step * epsilon;
}

at::Tensor local_norm(const Propagator& propagator, TemporalNorm norm, const State& states) {
  if (states.front().size(0) == 0) return at::zeros({}, at::kDouble);
  const at::Tensor norms = propagator.norms(states).to(at::kDouble);
  switch (norm) {
    case TemporalNorm::one: return norms.sum();
    case TemporalNorm::two: return norms.square().sum();
    case TemporalNorm::max: break;
  }
  return norms.nan_to_num(HUGE_VAL, HUGE_VAL).max();  // MPI does not say what the greater of a number and NaN is
}

void add_costs(Report& to, const Report& other) {
  for (size_t level = 0; level < other.steps.size(); ++level) {
    to.steps[level] += other.steps[level];
    to.messages[level] += other.messages[level];
  }
  to.bytes += other.bytes;
  to.last_relaxation += other.last_relaxation;
  to.waited += other.waited;
}

void visit_residuals(bool& residuals, TemporalNorm& norm, OnDivergence& on_divergence, OptionVisitor& visitor) {
  const std::vector<std::pair<std::string, TemporalNorm>> norms{{"one", TemporalNorm::one}, {"two", TemporalNorm::two}, {"max", TemporalNorm::max}};
  const std::vector<std::pair<std::string, OnDivergence>> reactions{
      {"report", OnDivergence::report}, {"more_iterations", OnDivergence::more_iterations}, {"serial", OnDivergence::serial}};
  visitor.field("residuals", residuals, {.meaning = "compute them"});
  visitor.field("norm", norm, norms, {.meaning = "of the residuals at points of level 0"});
  visitor.field("on_divergence", on_divergence, reactions, {.meaning = "what to do when the residual has grown, or is not finite"});
}

at::Tensor ResidualWatch::over_ranks(const at::Tensor& local) const {
  const at::Tensor norms = local.cpu();  // the host is to look at them
  allreduce(comm_, norms, rules_.norm == TemporalNorm::max ? ReduceOp::max : ReduceOp::sum);
  return rules_.norm == TemporalNorm::two ? norms.sqrt() : norms;
}

void ResidualWatch::judge(size_t iteration, const at::Tensor& norms) {
  report_.residuals[iteration] = norms[0].item<double>();
  report_.rounding = rules_.rounding * norms[1].item<double>();
  report_.diverged = has_grown({report_.residuals.begin(), report_.residuals.begin() + static_cast<int64_t>(iteration) + 1}, report_.rounding);
}

bool ResidualWatch::add(const std::optional<at::Tensor>& norms) {
  report_.residuals.emplace_back();
  if (!norms) return false;
  if (!decides()) {
    waiting_.push_back(*norms);
    return false;
  }
  judge(report_.residuals.size() - 1, over_ranks(*norms));
  return below() || !std::isfinite(*report_.residuals.back());
}

void ResidualWatch::finish(const at::Tensor& norm) {
  waiting_.push_back(norm.expand({2}));
  const at::Tensor norms = over_ranks(at::stack(waiting_));
  const size_t first = report_.residuals.size() - waiting_.size() + 1;
  for (size_t i = 0; i + 1 < waiting_.size(); ++i) judge(first + i, norms[static_cast<int64_t>(i)]);
  finite_ = std::isfinite(norms[-1][0].item<double>());
}

bool ResidualWatch::below() const { return !report_.residuals.empty() && report_.residuals.back() && *report_.residuals.back() < rules_.tolerance; }

}  // namespace tw::layer_parallel
