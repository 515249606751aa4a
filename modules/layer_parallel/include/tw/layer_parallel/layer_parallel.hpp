// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tw/gradients/trained_model.hpp>
#include <tw/layer_parallel/block.hpp>
#include <tw/layer_parallel/iterated_network.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw::layer_parallel {

/// What the iterations of a pass start from.
enum class Guess {
  zero,
  previous,  ///< the solution of the pass before, where shapes are the same and it did not diverge; such a pass does not skip its first downcycle.
             ///< Needs residuals
};

struct LayerParallelOptions {
  double final_time = 1;             ///< T, of every ODE block: its step size is T / (layers of the block)
  int levels = 2;                    ///< at most; 1: serial
  PerLevel<int64_t> coarsening = 4;  ///< layers of a level for one of the next
  int64_t min_coarse = 2;            ///< layers that a level has at least
  MgritOptions forward = {.iterations = 2};
  MgritOptions backward = {.iterations = 1};
  Guess guess = Guess::zero;
  /// Keep of a forward pass the states at C-points only, and compute those between them again in each sweep of its backward pass: of N layers on a
  /// rank, N / c + c are kept in place of N, for one forward pass more in each sweep over the finest level.
  bool recompute = false;
  int64_t front_layers = 0;  ///< of every ODE block, this many first layers are outside of the iterations, and exact
  int64_t back_layers = 0;   ///< and this many last ones; those that `coarsening` leaves over are added
  uint64_t seed = 0;         ///< of initial values and of random layers

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(LayerParallelOptions& options, OptionVisitor& visitor);
/// Visits the options that the configuration of a training sets in addition to IterationOptions.
void visit_training(LayerParallelOptions& options, OptionVisitor& visitor);

/// The whole network in one process, as LayerParallel::serial_on_root() returns it.
class SerialNetwork : public torch::nn::Module {
 public:
  /// Initial values as LayerParallel has them.
  SerialNetwork(std::vector<Block> blocks, const LayerParallelOptions& options);
  at::Tensor forward(const at::Tensor& input);
  State forward(State input, const State& extras = {});
  /// Random layers draw what they draw in training pass `calls`, from 0, next.
  void set_calls(int64_t calls) noexcept { calls_ = static_cast<uint64_t>(calls); }
  /// See TrainedModel::set_replica().
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

/// A network whose ODE blocks are shared among the ranks of a communicator, which run their parts at the same time, by multigrid in time over the
/// layers. To the caller it is a module: forward() and backward() on every rank, parameters() for an optimizer of this rank's own, nothing to be
/// reduced. Along a `data` axis, DataParallel takes its parameters like any others.
///
/// Each rank has a contiguous part of every ODE block. Of these, parameters of one name lie in one tensor, [layers of this rank, ...], named after
/// the block's index, such as "1.weight". Plain layers before the first ODE block live on rank 0, others where the block before them ends. No two
/// layers have a tensor in common. It must outlive the backward passes of what it gave.
///
/// Random numbers of a layer depend on seed, replica, training pass, block and layer alone: they are those of one process, whichever rank has it.
/// Plain layers draw so in training, layers of ODE blocks with BlockOptions::random.
///
/// As a TrainedModel it lies along the axis `layer`; training passes are recorded by autograd.
///
/// Under autocast states of ODE blocks stay float32, layers run one by one, and what a backward pass computes again is under that of its forward
/// pass.
///
/// Passes are iterations: an approximation, exact when there are enough of them. The gradient is that of the last relaxation, whose own
/// linearisation is exact. Ref: Gunther et al. 2020, SIMODS 2:1.
class LayerParallel : public torch::nn::Module, public TrainedModel, public IteratedNetwork {
 public:
  /// Collective. @param comm of the `layer` axis; duplicated.
  /// Each rank calls the factories of all blocks, and drops the layers that are not its own.
  /// @throws ContractError on every rank when options or blocks differ, no ODE block has two layers, or two layers share a tensor.
  LayerParallel(const Communicator& comm, std::vector<Block> blocks, const LayerParallelOptions& options = {});
  ~LayerParallel() override;

  /// Collective, and so is the backward pass of its output.
  /// @param input used on rank 0 only; elsewhere anything. Where it requires a gradient on all ranks, in the same shape, all get that of rank 0's, so
  /// that networks may follow one another; otherwise the gradient is on rank 0, and elsewhere it is zeros or none.
  /// @return the output on every rank. Every rank calls backward(), or torch::autograd::grad() for the gradients of its own input; the cotangent of
  /// the rank that has the last layer is the one that counts. Gradients cannot be differentiated again.
  /// @throws ContractError on every rank alike, naming ranks, when ranks differ in mode, in extras or in what they record; on the rank where it
  /// happens what a layer throws, or a ContractError for a layer that draws random numbers without BlockOptions::random, and RevokedError on the
  /// others. The network then makes its next pass as usual, on all ranks.
  at::Tensor forward(const at::Tensor& input) override;
  /// The same for states of several tensors. @param extras given to every layer, on every rank alike; no gradient reaches them, and none may be
  /// wanted.
  State forward(const State& input, const State& extras);

  /// Random layers draw what they draw in training pass `number`, from 0, next; later passes count on from there. On every rank alike.
  void set_calls(int64_t number);
  void set_iterations(Iterations iterations) override;
  Iterations iterations() const override;
  void observe(PhaseObserver observer) override;
  NetworkReport report() const override;
  /// Why the layers of ODE block `name` that this rank has did not run as one operation in the last pass; empty where they did, or
  /// none has run yet.
  std::string unbatchable(const std::string& name) const;

  /// Parameters and buffers for checkpoints, which any number of ranks can load: stacks are slices of the block's, [layers of the block, ...].
  std::vector<NamedShard> shards() const override;
  /// The parameters for OptimizerState, which re-shards them likewise.
  std::vector<OptimizedTensor> optimized_tensors() const override;
  /// The whole network, with the values and the modes of now, of all parts. Collective. @return null on ranks other than 0
  std::shared_ptr<SerialNetwork> serial_on_root() const;

  /// (gamma / 2) sum |theta_{k+1} - theta_k|^2 / dt over neighbouring layers of all ODE blocks, dt being the step size; its gradient is added to that
  /// of the parameters. It keeps layers alike, which is what the iterations converge by. Collective. @return the penalty of all ranks
  double add_smoothness_penalty(double gamma);

  std::vector<std::string> axes() const override { return {"layer"}; }
  ModelTensors tensors() const override;
  /// Those of serial_on_root(), on rank 0 of comm().
  std::vector<NamedTensor> whole_on_root(const Communicator& holders) const override;
  /// Random layers draw what they draw in training pass `pass.number`.
  void pass(const TrainingPass& pass) override;
  void set_training(bool training) override;
  void set_replica(int64_t replica) override;
  void tell_phases(OnPhase on_phase) override;

  /// Reaches the layers of ODE blocks. So does that of the part that bears a block's name, such as named_children()["1"]->eval(), for this rank's.
  void train(bool on = true) override;
  /// @throws ContractError: see serial_on_root()
  std::shared_ptr<torch::nn::Module> clone(const std::optional<at::Device>& device = std::nullopt) const override;
  const Communicator& comm() const noexcept override;
  const LayerParallelOptions& options() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::layer_parallel
