// SPDX-License-Identifier: Apache-2.0
#include "residuals.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tw/comm/collectives.hpp>

namespace tw::layer_parallel {
namespace {

/// The machine epsilon; 0 for integers.
double epsilon_of(c10::ScalarType dtype) {
  switch (c10::toRealValueType(dtype)) {
    case at::kDouble: return std::numeric_limits<double>::epsilon();
    case at::kFloat: return std::numeric_limits<float>::epsilon();
    case at::kHalf: return std::numeric_limits<c10::Half>::epsilon();
    case at::kBFloat16: return std::numeric_limits<c10::BFloat16>::epsilon();
    default: return 0;
  }
}

/// Whether the last residual is not finite, or exceeds both the one before and the rounding error.
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

at::Tensor sum_of_squares(const State& states) {
  at::Tensor sum = at::zeros({}, states.front().options().dtype(at::kDouble));
  for (const at::Tensor& tensor : states) {
    const at::Tensor real = tensor.is_complex() ? at::view_as_real(tensor) : tensor;
    sum = sum.add(at::linalg_vector_norm(real, 2, {}, false, at::kDouble).square());
  }
  return sum;
}

bool is_finite(const Communicator& comm, const State& state) {
  at::Tensor finite = at::ones({}, at::kLong);
  for (const at::Tensor& tensor : state) finite = finite * tensor.isfinite().all();
  finite = finite.cpu();
  allreduce(comm, finite, ReduceOp::min);
  return finite.item<int64_t>() == 1;
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

void visit_residuals(bool& residuals, OnDivergence& on_divergence, OptionVisitor& visitor) {
  const std::vector<std::pair<std::string, OnDivergence>> reactions{
      {"report", OnDivergence::report}, {"more_iterations", OnDivergence::more_iterations}, {"serial", OnDivergence::serial}};
  visitor.field("residuals", residuals, {.meaning = "compute residuals"});
  visitor.field("on_divergence", on_divergence, reactions, {.meaning = "reaction to a residual that has grown or is not finite"});
}

at::Tensor ResidualWatch::over_ranks(const at::Tensor& squares) const {
  const at::Tensor sums = squares.cpu();  // the host reads them
  allreduce(comm_, sums, ReduceOp::sum);
  return sums.sqrt();
}

void ResidualWatch::judge(size_t iteration, const at::Tensor& norms) {
  report_.residuals[iteration] = norms[0].item<double>();
  report_.rounding = rules_.rounding * norms[1].item<double>();
  report_.diverged = has_grown({report_.residuals.begin(), report_.residuals.begin() + static_cast<int64_t>(iteration) + 1}, report_.rounding);
}

bool ResidualWatch::add(const std::optional<at::Tensor>& squares) {
  report_.residuals.emplace_back();
  if (!squares) return false;
  if (!decides()) {
    waiting_.push_back(*squares);
    return false;
  }
  judge(report_.residuals.size() - 1, over_ranks(*squares));
  return below() || !std::isfinite(*report_.residuals.back());
}

void ResidualWatch::finish(const at::Tensor& squares) {
  waiting_.push_back(squares.expand({2}));
  const at::Tensor norms = over_ranks(at::stack(waiting_));
  const size_t first = report_.residuals.size() - waiting_.size() + 1;
  for (size_t i = 0; i + 1 < waiting_.size(); ++i) judge(first + i, norms[static_cast<int64_t>(i)]);
  finite_ = std::isfinite(norms[-1][0].item<double>());
}

bool ResidualWatch::below() const { return !report_.residuals.empty() && report_.residuals.back() && *report_.residuals.back() < rules_.tolerance; }

}  // namespace tw::layer_parallel
