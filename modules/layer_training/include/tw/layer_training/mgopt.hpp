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

  /// @throws ContractError naming the first invalid field, if there is one.
  void validate() const;
};
void visit(MgOptOptions& options, OptionVisitor& visitor);

/// Statistics of one call of MgOpt::step().
struct MgOptReport {
  /// The coarse correction of a level. The objective is the loss; on coarser levels, minus a linear term (see MgOpt).
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
  /// Work of the step. A forward and backward pass costs n / N in a network of n ODE layers, where N is n of the finest network; a forward pass alone
  /// costs a third of that.
  double work = 0;
};
std::ostream& operator<<(std::ostream& out, const MgOptReport& report);

/// Trains a network with the help of networks of fewer layers, one V-cycle per batch. Each level has a network with parameters x and loss f. Its
/// objective is f(x) - <v, x>, where v is 0 on the finest level. A level does the following:
///
/// 1. Make `pre_steps` gradient steps; g is the gradient of the objective after them.
/// 2. Let the next coarser level (H) do the same from x_H, where each coarse layer is the mean of its fine layers. The result is x_H'. With
///    v_H = grad f_H(x_H) - P^T * g, the coarse objective equals this one to first order. P copies each coarse layer to its fine layers. P^T sums
///    over the fine layers, because a gradient scales with the step size. The coarsest level makes only `coarse_steps` gradient steps.
/// 3. Apply the correction e = P * (x_H' - x_H): x += alpha * e with the first alpha of 1, 1/2, 1/4, ... for which the objective falls by at least
///    1e-4 * alpha * |<e, g>|. The correction is cancelled if <e, g> >= 0, or if the objective does not fall enough after `halvings` halvings.
/// 4. Make `post_steps` gradient steps.
///
/// Gradient steps have no momentum.
class MgOpt {
 public:
  /// Collective. @param networks finest first. All have the same dtype, and the same blocks on the same ranks; the number of layers of each ODE block
  /// is a multiple of that in the next network. The finest network is trained; the others hold no state between steps.
  /// @throws ContractError on every rank if dtypes, blocks or numbers of layers do not meet these conditions, or if options differ between ranks
  explicit MgOpt(std::vector<std::shared_ptr<layer_parallel::LayerParallel>> networks, const MgOptOptions& options = {});
  ~MgOpt();
  MgOpt(const MgOpt&) = delete;
  MgOpt& operator=(const MgOpt&) = delete;

  /// Makes one V-cycle. Collective. It clears `.grad()` of all parameters. Call n (from 0) draws the random numbers of training pass n. Each forward
  /// pass of the cycle updates the running statistics of its network.
  /// @param inputs [n, ...], used on rank 0 only. @param targets needed on every rank. @param loss called on every rank; rank 0's value counts
  MgOptReport step(const at::Tensor& inputs, const at::Tensor& targets, const LossFunction& loss);

  const MgOptOptions& options() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::layer_training
