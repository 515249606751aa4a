// SPDX-License-Identifier: Apache-2.0
#include "mgopt_cycle.hpp"

#include <cmath>
#include <optional>

namespace tw::layer_training {
namespace {

/// Smallest accepted decrease, as a fraction of the decrease that the slope predicts. Ref: Armijo 1966.
constexpr double min_decrease = 1e-4;

/// a + factor b
Vector plus(const Vector& a, const Vector& b, double factor) {
  Vector result;
  for (size_t i = 0; i < a.size(); ++i) result.push_back(a[i].add(b[i], factor));
  return result;
}

/// A point, and the objective there if it is known.
struct Iterate {
  Vector x;
  std::optional<Evaluation> known = std::nullopt;
};

class Cycle {
 public:
  Cycle(const std::vector<MgOptLevel>& levels, const MgOptOptions& options) : levels_(levels), options_(options) {
    report_.corrections.resize(levels.size() - 1);
  }

  MgOptReport run(Vector& x) {
    Iterate point{x};
    report_.loss_before = evaluated(0, point, {}).value;
    improve(0, point, {});
    x = std::move(point.x);
    report_.loss_after = report_.corrections.empty() ? report_.loss_before : report_.corrections[0].after;
    return report_;
  }

 private:
  /// @param shift v in the objective f(x) - <v, x>; empty: none
  void improve(size_t level, Iterate& point, const Vector& shift) {
    if (level + 1 == levels_.size()) return descend(level, point, shift, options_.coarse_steps);
    descend(level, point, shift, options_.pre_steps);
    correct(level, point, shift);
    descend(level, point, shift, options_.post_steps);
  }

  void descend(size_t level, Iterate& point, const Vector& shift, int steps) {
    const double rate = options_.learning_rate.at(static_cast<int>(level));
    for (int i = 0; i < steps; ++i) point = {plus(point.x, evaluated(level, point, shift).gradient, -rate)};
  }

  void correct(size_t level, Iterate& point, const Vector& shift) {
    const MgOptLevel& fine = levels_[level];
    const Evaluation here = evaluated(level, point, shift);
    const Vector start = fine.restrict_point(point.x);
    const Vector wanted = fine.restrict_gradient(here.gradient);
    Iterate coarse{start};
    const Evaluation there = evaluated(level + 1, coarse, {});
    const Vector coarse_shift = plus(there.gradient, wanted, -1);
    coarse.known = shifted(level + 1, there, coarse_shift, start);
    improve(level + 1, coarse, coarse_shift);

    const Vector correction = fine.prolong(plus(coarse.x, start, -1));
    MgOptReport::Correction& done = report_.corrections[level];
    done.before = done.after = here.value;
    done.slope = fine.inner(correction, here.gradient);
    double alpha = done.slope < 0 ? 1 : 0;  // 0 also if the slope is NaN
    for (int halvings = 0; alpha > 0 && halvings <= options_.halvings; ++halvings, alpha /= 2) {
      // If a gradient step follows, compute the gradient together with the value.
      Iterate tried{plus(point.x, correction, alpha)};
      const double value = evaluate(level, tried, shift, halvings == 0 && options_.post_steps > 0);
      if (!(value <= here.value + min_decrease * alpha * done.slope)) continue;
      point = std::move(tried);
      done.alpha = alpha;
      done.after = value;
      return;
    }
  }

  /// The objective at `point`, with its gradient.
  const Evaluation& evaluated(size_t level, Iterate& point, const Vector& shift) {
    if (!point.known) evaluate(level, point, shift, true);
    return *point.known;
  }

  /// Value and gradient of f(x) - <v, x>.
  Evaluation shifted(size_t level, Evaluation found, const Vector& shift, const Vector& x) const {
    if (shift.empty()) return found;
    found.value -= levels_[level].inner(shift, x);
    if (!found.gradient.empty()) found.gradient = plus(found.gradient, shift, -1);
    return found;
  }

  /// Evaluates the objective, and stores the result in the point if it includes the gradient. @return the value
  double evaluate(size_t level, Iterate& point, const Vector& shift, bool with_gradient) {
    const MgOptLevel& at = levels_[level];
    report_.work += with_gradient ? at.cost : at.cost / 3;
    Evaluation found = shifted(level, at.evaluate(point.x, with_gradient), shift, point.x);
    const double value = found.value;
    if (with_gradient) point.known = std::move(found);
    return value;
  }

  const std::vector<MgOptLevel>& levels_;
  const MgOptOptions& options_;
  MgOptReport report_;
};

}  // namespace

MgOptReport mgopt_cycle(const std::vector<MgOptLevel>& levels, const MgOptOptions& options, Vector& x) { return Cycle(levels, options).run(x); }

}  // namespace tw::layer_training
