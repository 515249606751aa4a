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
  /// Learning rate of the gradient steps, by level. Use smaller rates for coarse networks: a coarse layer's gradient is larger by the ratio of the
  /// step sizes.
  layer_parallel::PerLevel<double> learning_rate = {0.5, 0.25};
  int pre_steps = 0;     ///< gradient steps of a level before its coarse correction
  int post_steps = 1;    ///< gradient steps of a level after its coarse correction
  int coarse_steps = 8;  ///< gradient steps of the coarsest level
  int halvings = 4;      ///< maximum halvings of a correction that does not reduce the objective enough, before it is cancelled

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(MgOptOptions& options, OptionVisitor& visitor);

/// Statistics of one step.
struct MgOptReport {
  /// The coarse correction of a level. The objective is the loss, with a linear term on coarser levels.
  struct Correction {
    double slope =
        0;  ///< <e, g> of the correction e and the gradient g: the first-order change of the objective. If not negative, the correction is not tried
    double alpha = 0;   ///< factor with which the correction was applied; 0: cancelled
    double before = 0;  ///< objective before the correction
    double after = 0;   ///< objective after the correction, before post_steps

    bool is_cancelled() const noexcept { return alpha == 0; }
  };
  double loss_before = 0;               ///< loss of the batch with the parameters before the step
  double loss_after = 0;                ///< loss before the finest level's post_steps; it is not computed again after them
  std::vector<Correction> corrections;  ///< by level, all but the coarsest
  double work = 0;  ///< work of the step; 1 is a forward and backward pass of the finest network (N ODE layers). A pass of n layers costs n / N, or
                    ///< a third of that without its backward pass
};
std::ostream& operator<<(std::ostream& out, const MgOptReport& report);

/// Trains a network with the help of smaller ones, one V-cycle per batch. Each level has parameters x and the objective f(x) - <v, x>, where v is 0
/// on the finest level. It does the following:
///
/// 1. Make `pre_steps` gradient steps; g is the gradient after them.
/// 2. Run the next level from x_H, where each coarse layer is the mean of its fine layers, to x_H'. Its v_H = grad f_H(x_H) - P^T g makes its
///    objective equal this one to first order. P copies each coarse layer to its fine layers. P^T sums over the fine layers, because a gradient
///    scales with the step size. The coarsest level makes only `coarse_steps` gradient steps.
/// 3. Apply the correction e = P (x_H' - x_H): x += alpha e with the first alpha of 1, 1/2, 1/4, ... for which the objective falls by at least
///    1e-4 alpha |<e, g>|. The correction is cancelled if <e, g> >= 0, or after `halvings`.
/// 4. Make `post_steps` gradient steps.
///
/// Gradient steps have no momentum.
class MgOpt {
 public:
  /// Collective. @param networks finest first: the same blocks on the same ranks, each ODE block with a multiple of the next network's layers. The
  /// finest network is trained; the others hold no state between steps. All have the same dtype.
  /// @throws ContractError on every rank if the networks do not fit, or options differ between ranks
  explicit MgOpt(std::vector<std::shared_ptr<layer_parallel::LayerParallel>> networks, const MgOptOptions& options = {});
  ~MgOpt();
  MgOpt(const MgOpt&) = delete;
  MgOpt& operator=(const MgOpt&) = delete;

  /// Makes one V-cycle. Collective. It clears `.grad()` of all parameters. Step n (from 0) draws the random numbers of training pass n. Each pass of
  /// the cycle updates running statistics.
  /// @param inputs [n, ...], used on rank 0 only. @param targets needed on every rank. @param loss called on every rank; rank 0's value counts
  MgOptReport step(const at::Tensor& inputs, const at::Tensor& targets, const LossFunction& loss);

  const MgOptOptions& options() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::layer_training
