// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tw/gradients/trainable_model.hpp>
#include <tw/layer_parallel/block.hpp>
#include <tw/layer_parallel/iterated_network.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw::layer_parallel {

/// The initial guess of a pass's iterations.
enum class Guess {
  zero,
  previous,  ///< the previous pass's solution, if it did not diverge and its states have the same shapes and dtypes. The first iteration then ignores
             ///< CycleOptions::skip_downcycle. Needs MgritOptions::residuals
};

struct LayerParallelOptions {
  double final_time = 1;             ///< time T that every ODE block spans; the step size is T / (layers of the block)
  int levels = 2;                    ///< maximum number of levels; 1: serial
  PerLevel<int64_t> coarsening = 4;  ///< c, the number of layers of a level per layer of the next coarser one
  int64_t min_coarse = 2;            ///< minimum number of layers of a coarse level
  MgritOptions forward = {.iterations = 2};
  MgritOptions backward = {.iterations = 1};
  Guess guess = Guess::zero;
  /// Whether to save memory: a forward pass then keeps only its states at C-points (every c-th point), and each backward sweep over the finest level
  /// recomputes the states between them. For N layers on a rank, N / c + c states are kept instead of N. Each such sweep costs one more forward pass.
  bool recompute = false;
  int64_t front_layers = 0;  ///< number of first layers of every ODE block that run outside the iterations, and are thus exact
  int64_t back_layers = 0;   ///< the same for the last layers, in addition to those that do not fill an interval of c layers
  uint64_t seed = 0;         ///< seed of initial values and random layers

  /// @throws ContractError naming the first invalid field, if there is one.
  void validate() const;
};
void visit(LayerParallelOptions& options, OptionVisitor& visitor);
/// Visits those options that a training run's configuration contains in addition to IterationOptions.
void visit_training(LayerParallelOptions& options, OptionVisitor& visitor);

/// Some blocks of a network, `begin` to `end` - 1.
struct BlockRange {
  int64_t begin = 0;
  int64_t end = -1;  ///< -1: to the last block
};

/// The whole network in one process; see LayerParallel::serial_on_root().
class SerialNetwork : public torch::nn::Module {
 public:
  /// Initial values are the same as in LayerParallel.
  SerialNetwork(std::vector<Block> blocks, const LayerParallelOptions& options);
  at::Tensor forward(const at::Tensor& input);
  State forward(State input, const State& extras = {});
  /// The next pass draws the random numbers of training pass `calls`, counted from 0.
  void set_calls(int64_t calls) noexcept { calls_ = static_cast<uint64_t>(calls); }
  /// See TrainableModel::set_replica().
  void set_replica(int64_t replica) noexcept { replica_ = replica; }
  /// The layers of block `index`.
  const std::vector<Layer>& layers(size_t index) const { return layers_.at(index); }

 private:
  std::vector<Block> blocks_;
  LayerParallelOptions options_;
  std::vector<std::vector<Layer>> layers_;  // by block
  uint64_t calls_ = 0;
  int64_t replica_ = 0;
};

/// A network whose ODE blocks are divided among the ranks of a communicator. The ranks run their parts at the same time, by multigrid in time over
/// the layers. Use the network like a module: call forward() and backward() on every rank, and pass parameters() to this rank's own optimizer. These
/// ranks need not reduce gradients. Along a mesh axis `data`, use DataParallel as usual.
///
/// Layers may contain modules that are split over the ranks of another mesh axis (SlicedModule).
///
/// Each rank has a contiguous part of every ODE block. In this part, parameters with the same name are stacked in one tensor, [layers of this rank,
/// ...], whose name begins with the block's index, such as "1.weight". Plain layers before the first ODE block are on rank 0; others are on the rank
/// where the preceding ODE block ends. Layers must not share tensors. The network must outlive the backward passes of its outputs.
///
/// A layer's random numbers depend only on seed, replica, training pass, block and layer: they are the same as in one process. This holds for plain
/// layers in training, and for layers of ODE blocks with BlockOptions::random.
///
/// As a TrainableModel, the network is split along the mesh axis `layer`, and autograd records its training passes.
///
/// Under autocast, states of ODE blocks stay float32, and layers run one by one. Recomputation in a backward pass uses the forward pass's autocast
/// settings.
///
/// Forward and backward passes are solved by iterations: outputs and gradients are approximations, which become exact with enough iterations. The
/// backward pass differentiates the steps of the last relaxation, which ends the forward pass. Ref: Gunther et al. 2020, SIMODS 2:1.
class LayerParallel : public torch::nn::Module, public TrainableModel, public IteratedNetwork {
 public:
  /// Collective. Each rank calls the factories of all blocks, and drops the layers of other ranks. @param comm the axis `layer`; duplicated.
  /// @param range the blocks to make, such as those of a pipeline's stage. Their names, initial values and random numbers are the same as in the
  /// whole network.
  /// @throws ContractError on every rank if options or blocks differ between ranks, no block has at least two layers, or two layers share a tensor.
  LayerParallel(const Communicator& comm, std::vector<Block> blocks, const LayerParallelOptions& options = {}, const BlockRange& range = {});
  ~LayerParallel() override;

  /// Runs the network. Collective, and so is the backward pass of its output.
  /// @param input used on rank 0 only; elsewhere any tensor. If it requires a gradient and has the same shape and dtype on all ranks, all ranks get
  /// the gradient of rank 0's input, so you can chain networks. Otherwise only rank 0 gets this gradient, and the others get zeros or none.
  /// @return the output on every rank. Every rank must call backward(), or torch::autograd::grad() for its own input's gradient. Only the cotangent
  /// on the rank with the last layer counts. Gradients cannot be differentiated again.
  /// @throws ContractError on every rank alike, naming ranks, if ranks differ in mode, replica, autocast, the shapes of extras, or whether autograd
  /// records. If a layer throws, its rank throws the same exception, and the others throw RevokedError. The same happens, with ContractError, if a
  /// layer of an ODE block draws random numbers without BlockOptions::random. In all these cases, all ranks can run the next pass as usual.
  at::Tensor forward(const at::Tensor& input) override;
  /// forward() for states of several tensors. @param extras passed to every layer, the same on every rank; they get no gradient, and must not require
  /// one.
  State forward(const State& input, const State& extras);

  /// Replaces communicators that a failure has revoked by duplicates of `comm`, which must have the same ranks. Collective.
  void restart_over(const Communicator& comm);
  /// The next pass draws the random numbers of training pass `number`, counted from 0; later passes continue from there. Call it on every rank alike.
  void set_calls(int64_t number);
  void set_iterations(Iterations iterations) override;
  Iterations iterations() const override;
  void observe(PhaseObserver observer) override;
  NetworkReport report() const override;
  /// Why this rank's layers of ODE block `name` did not run batched in the last pass; empty if they did, or before the first pass.
  std::string unbatchable(const std::string& name) const;
  /// Whether this rank's layers contain split layers; see SlicedModule.
  bool has_split_layers() const;

  /// Parameters and buffers for checkpoints, which any number of ranks can load: this rank's stacks are slices of the block's stacks, [layers of the
  /// block, ...]. Exports contain the layers one by one, with the names of serial_on_root(): "1.3.weight" is layer 3 of "1.weight". A plain layer's
  /// "0.weight" has the additional name "0.0.weight", as in serial_on_root().
  std::vector<NamedShard> shards() const override;
  /// The parameters for OptimizerState, whose checkpoints any number of ranks can load, too.
  std::vector<OptimizedTensor> optimized_tensors() const override;
  /// Assembles the whole network with the current values and modes of all layers. Not supported if has_split_layers() on any rank. Collective.
  /// @return null on ranks other than 0. @throws ContractError if this network has only some of the blocks (BlockRange)
  std::shared_ptr<SerialNetwork> serial_on_root() const;

  /// Adds the gradient of the following penalty to the gradients of the parameters. Collective.
  ///   (gamma / 2) * sum_k |theta_{k+1} - theta_k|^2 / dt
  /// theta_k are the parameters of layer k, and dt is the block's step size; the sum is over all ODE blocks. The penalty keeps neighbouring layers
  /// similar, which the iterations need to converge. @return the penalty over all ranks
  double add_smoothness_penalty(double gamma);

  std::vector<std::string> axes() const override { return {"layer"}; }
  std::vector<const Communicator*> communicators() const override;
  void for_each_layer(const OnLayer& on_layer) const override;
  ModelTensors tensors() const override;
  const torch::nn::Module* module() const override { return this; }
  /// Runs a training pass with the random numbers of pass `pass.number`.
  void pass(const TrainingPass& pass) override;
  void set_training(bool training) override;
  void set_replica(int64_t replica) override;
  void report_phases(OnPhase on_phase) override;

  /// Sets the mode of all layers, including those of ODE blocks. To set the mode of this rank's layers of one block only, use the child module with
  /// the block's name, such as named_children()["1"]->eval().
  void train(bool on = true) override;
  /// Not supported; use serial_on_root(). @throws ContractError always
  std::shared_ptr<torch::nn::Module> clone(const std::optional<at::Device>& device = std::nullopt) const override;
  const Communicator& comm() const noexcept override;
  const LayerParallelOptions& options() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::layer_parallel
