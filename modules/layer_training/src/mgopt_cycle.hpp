// SPDX-License-Identifier: Apache-2.0
// The V-cycle of MG/OPT over any hierarchy of objectives. It knows neither networks nor ranks: what it calls may span several.
#pragma once
#include <functional>
#include <tw/layer_training/mgopt.hpp>
#include <vector>

namespace tw::layer_training {

/// A point, a gradient or a direction of a level: this rank's tensors of it.
using Vector = std::vector<at::Tensor>;

struct Evaluation {
  double value = 0;
  Vector gradient;  // empty where it was not asked for
};

/// An objective, and the way to the next coarser one, which the last level lacks.
struct MgOptLevel {
  std::function<Evaluation(const Vector& x, bool with_gradient)> evaluate;
  std::function<double(const Vector& a, const Vector& b)> inner;  // the same on all ranks
  double cost = 1;                                                // of an evaluation with gradient; without, a third
  std::function<Vector(const Vector& x)> restrict_point = {};
  std::function<Vector(const Vector& g)> restrict_gradient = {};  // the transpose of `prolong`
  std::function<Vector(const Vector& e)> prolong = {};            // from the next level
};

/// One V-cycle. @param x the point where it begins; then, where it ends
MgOptReport mgopt_cycle(const std::vector<MgOptLevel>& levels, const MgOptOptions& options, Vector& x);

}  // namespace tw::layer_training
