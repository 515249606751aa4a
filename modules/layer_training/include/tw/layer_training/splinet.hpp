// SPDX-License-Identifier: Apache-2.0
// Splines in depth: the layers' parameters are values of a curve that itself has few parameters. Ref: Gunther, Pazner & Qi 2021, arXiv 2103.00301.
#pragma once
#include <cstdint>
#include <memory>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <vector>

namespace tw::layer_training {

struct SpliNetOptions {
  int64_t control_points = 8;  ///< number of control points of every ODE block; more than `degree`, and at most the block's number of layers
  int degree = 3;              ///< degree of the splines; 0: layers are piecewise constant over the depth

  /// @throws ContractError naming the first invalid field, if there is one.
  void validate() const;
};
void visit(SpliNetOptions& options, OptionVisitor& visitor);

/// A LayerParallel in whose ODE blocks layer k of N has the parameters
///   theta_k = sum_j B_j(t_k) * w_j,   t_k = (k + 1/2) * T / N
/// B_j are B-splines on uniform, clamped knots over [0, T], and t_k is the middle of time step k. The control points w_j are trained; plain
/// layers are trained as usual. The number of w_j does not depend on the number of layers. Neighbouring layers are similar, which helps iterations in
/// depth to converge.
///
/// Every rank of the mesh axis `layer` has all control points, [control_points, ...], named like the stacks of LayerParallel with the suffix
/// ".control_points". Their gradient is B^T times the gradient of the layers, summed over the ranks, so all ranks' optimizers make the same update.
/// With degree 0 and one control point per layer, a SpliNet equals the LayerParallel itself. Frozen parameters keep their value in each layer.
///
/// Train a SpliNet by pass(), or with the trainer; forward() is for evaluation, and autograd does not record it. Each pass first overwrites the
/// splined parameters of net(). exported_shards() returns the layers.
class SpliNet : public ModelDecorator {
 public:
  /// Collective. The depth is cut into equal parts, one per control point. Each control point starts as the layer in the middle of its part, for any
  /// number of ranks.
  /// @param net must already have its final dtype and device
  /// @throws ContractError on every rank if an ODE block has fewer layers than control points, or options differ between ranks
  explicit SpliNet(std::shared_ptr<layer_parallel::LayerParallel> net, const SpliNetOptions& options = {});

  const std::shared_ptr<layer_parallel::LayerParallel>& net() const noexcept { return net_; }
  const SpliNetOptions& options() const noexcept { return options_; }

  ModelTensors tensors() const override;
  std::vector<NamedShard> shards() const override;
  std::vector<OptimizedTensor> optimized_tensors() const override;
  std::vector<NamedShard> exported_shards() const override;
  /// Not recorded by autograd.
  at::Tensor forward(const at::Tensor& inputs) override;
  void pass(const TrainingPass& pass) override;
  bool makes_one_backward_pass() const override { return false; }

 private:
  /// The parameters of one name in an ODE block.
  struct Curve {
    std::string name;     // of the stack
    at::Tensor stack;     // this rank's layers, a parameter of the network; undefined on ranks without layers of the block
    at::Tensor basis;     // [layers of this rank, control points]
    at::Tensor controls;  // [control points, ...]
  };

  const Curve* curve_of(const std::string& name) const;
  void fill_layers() const;

  std::shared_ptr<layer_parallel::LayerParallel> net_;
  SpliNetOptions options_;
  std::vector<Curve> curves_;  // in the same order on all ranks
};

}  // namespace tw::layer_training
