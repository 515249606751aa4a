// SPDX-License-Identifier: Apache-2.0
// MG/OPT, multigrid optimisation over depth: a training step in which networks of fewer layers do most of the work. Ref: Nash 2000, Optimization
// Methods and Software 14.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/planning/per_level.hpp>
#include <vector>

namespace tw::layer_training {

struct MgOptOptions {
  /// Of the gradient steps, by level. Coarse networks take shorter steps well: a coarse layer's gradient is larger by the ratio of the step sizes.
  layer_parallel::PerLevel<double> learning_rate = {0.5, 0.25};
  int pre_steps = 0;     ///< gradient steps of a level before its coarse correction
  int post_steps = 1;    ///< and after it
  int coarse_steps = 8;  ///< of the coarsest level
  int halvings = 4;      ///< of a correction that does not reduce the objective enough, before it is cancelled

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(MgOptOptions& options, OptionVisitor& visitor);

/// What one step has done.
struct MgOptReport {
  /// The coarse correction of a level, whose objective is the loss, on coarser levels shifted by a linear term.
  struct Correction {
    double slope = 0;  ///< <e, g> of the correction e and the gradient g: what the objective changes by to first order; not negative: it is not tried
    double alpha = 0;  ///< the share of it that was applied; 0: it was cancelled
    double before = 0;  ///< the objective where the correction begins
    double after = 0;   ///< and where it ends, before post_steps

    bool is_cancelled() const noexcept { return alpha == 0; }
  };
  double loss_before = 0;               ///< of the batch, with the parameters before the step
  double loss_after = 0;                ///< with those after it, but for post_steps, after which it is not computed again
  std::vector<Correction> corrections;  ///< by level, all but the coarsest
  double work = 0;                      ///< in passes forward and backward of the finest network: one of n ODE layers costs n / N of it, without
                                        ///< backward a third of that
};
std::ostream& operator<<(std::ostream& out, const MgOptReport& report);

/// Trains a network with the help of smaller ones, one V-cycle a batch. On each level, with parameters x and objective f(x) - <v, x> (v is 0 on the
/// finest):
///
/// 1. `pre_steps` gradient steps; then g, the gradient
/// 2. the next level begins at x_H, the means of the layers that one of its layers stands for, and gets v_H = grad f_H(x_H) - P^T g: to first order
///    it is then the same objective. P copies each coarse layer to its fine layers; P^T sums, because a gradient scales with the step
///    size. On the coarsest level, `coarse_steps` gradient steps
/// 3. e = P (x_H' - x_H), the correction: x += alpha e, alpha = 1, 1/2, 1/4, ... until the objective falls by 1e-4 alpha |<e, g>|; cancelled where
///    <e, g> >= 0, or after `halvings`
/// 4. `post_steps` gradient steps
///
/// Gradient steps have no momentum.
class MgOpt {
 public:
  /// Collective. @param networks finest first: the same blocks on the same ranks, each ODE block with a multiple of the next network's layers. The
  /// finest is what is trained; the others hold nothing that outlives a step. All of one dtype.
  /// @throws ContractError on every rank where the networks do not fit, or ranks differ in options
  explicit MgOpt(std::vector<std::shared_ptr<layer_parallel::LayerParallel>> networks, const MgOptOptions& options = {});
  ~MgOpt();
  MgOpt(const MgOpt&) = delete;
  MgOpt& operator=(const MgOpt&) = delete;

  /// One V-cycle. Collective. It overwrites `.grad()`. Random layers draw, in the n-th step from 0, what they draw in training pass n;
  /// running statistics are updated in each pass of the cycle.
  /// @param inputs [n, ...], used on rank 0 only. @param targets on every rank. @param loss of which rank 0's counts
  MgOptReport step(const at::Tensor& inputs, const at::Tensor& targets, const LossFunction& loss);

  const MgOptOptions& options() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::layer_training
