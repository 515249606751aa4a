// SPDX-License-Identifier: Apache-2.0
// The V-cycle of MG/OPT over any hierarchy of objectives. It is independent of networks and ranks: the functions that it calls may span several
// ranks.
#pragma once
#include <functional>
#include <tw/layer_training/mgopt.hpp>
#include <vector>

namespace tw::layer_training {

/// This rank's tensors of a point, a gradient or a direction on one level.
using Vector = std::vector<at::Tensor>;

struct Evaluation {
  double value = 0;
  Vector gradient;  // empty if not requested
};

/// An objective, and the transfer to the next coarser one; the last level has no transfer.
struct MgOptLevel {
  std::function<Evaluation(const Vector& x, bool with_gradient)> evaluate;
  std::function<double(const Vector& a, const Vector& b)> inner;  // inner product, the same on all ranks
  double cost = 1;                                                // cost of an evaluation with gradient; without gradient, a third of it
  std::function<Vector(const Vector& x)> restrict_point = {};
  std::function<Vector(const Vector& g)> restrict_gradient = {};  // transpose of `prolong`
  std::function<Vector(const Vector& e)> prolong = {};            // from the next level to this one
};

/// Runs one V-cycle. @param x start point on input, end point on output
MgOptReport mgopt_cycle(const std::vector<MgOptLevel>& levels, const MgOptOptions& options, Vector& x);

}  // namespace tw::layer_training
