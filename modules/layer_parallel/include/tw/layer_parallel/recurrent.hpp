// SPDX-License-Identifier: Apache-2.0
// Recurrent networks whose time steps are divided among ranks, which run their parts at the same time.
#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <tw/layer_parallel/cell.hpp>
#include <tw/layer_parallel/iterated_network.hpp>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw::layer_parallel {

/// The parallel-in-time solver of a layer: MGRIT, or Newton's method with the full Jacobian (newton) or its diagonal (quasi_newton). Newton's method
/// has no coarse levels. Of the options `forward` and `backward` it uses only `iterations`, `tolerance`, `residuals` and `on_divergence`. Its report
/// has no modelled speed-up.
enum class TimeSolver { mgrit, newton, quasi_newton };

struct RecurrentOptions {
  Cell cell = Cell::gru;
  int64_t input_size = 1;
  int64_t hidden_size = 64;
  int64_t layers = 1;
  bool bias = true;
  bool bidirectional = false;
  TimeSolver solver = TimeSolver::mgrit;
  CoarseCell coarse_cell = CoarseCell::frozen_gates;
  int levels = 2;                    ///< maximum number of levels; 1: serial
  PerLevel<int64_t> coarsening = 8;  ///< time steps of a level per step of the next coarser one
  int64_t min_coarse = 2;            ///< minimum number of steps of a coarse level
  MgritOptions forward = {.iterations = 2};
  MgritOptions backward = {.iterations = 1};
  /// Longest memory of a unit with the initial weights, in time steps: gate biases are drawn so that memories last from 2 steps to this number. It
  /// must exceed 2, and needs a gru or an lstm with biases. 0: weights as torch::nn draws them. Ref: Tallec & Ollivier 2018, arXiv 1804.11188
  int64_t longest_memory = 0;
  uint64_t seed = 0;  ///< seed of initial values

  /// @throws ContractError naming the first invalid field, if there is one.
  void validate() const;
};
void visit(RecurrentOptions& options, OptionVisitor& visitor);
/// Visits those options that a training run's configuration contains in addition to IterationOptions.
void visit_training(RecurrentOptions& options, OptionVisitor& visitor);

/// Optional inputs of a pass in addition to the sequences; they must be the same on all ranks.
struct RecurrentStart {
  /// Length of each sequence, from 0 to the number of steps: int64 [batch] on the CPU. After the end of a sequence, its state stays constant and its
  /// outputs are 0. Undefined: all steps.
  at::Tensor lengths = {};
  at::Tensor hidden = {};  ///< initial h, [layers * directions, batch, hidden]; undefined: zeros
  at::Tensor cell = {};    ///< initial c of an lstm, like `hidden`
};

struct RecurrentOutput {
  at::Tensor outputs;  ///< the last layer's outputs for this rank's steps, [steps, batch, directions * hidden]
  at::Tensor hidden;   ///< h at the end of each sequence, on every rank, [layers * directions, batch, hidden]
  at::Tensor cell;     ///< c at the end of each sequence, for an lstm; otherwise undefined
};

/// torch::nn::RNN (tanh), GRU or LSTM with one block of time steps per rank, solved layer by layer by multigrid in time or Newton's method. Each
/// layer's input products (see Cell) are computed once, for all levels and iterations. Every rank has all parameters, with the names of torch::nn,
/// and after a backward pass their full gradients, summed over the ranks.
///
/// Forward and backward passes are solved by iterations: outputs and gradients are approximations, which become exact with enough iterations. The
/// backward pass differentiates the steps of the last relaxation, which ends the forward pass. Ref: Moon & Cyr 2022, arXiv 2203.04738.
class Recurrent : public torch::nn::Module, public IteratedNetwork {
 public:
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };

  /// Collective. @param comm duplicated. @throws ContractError on every rank if options are invalid or differ between ranks
  explicit Recurrent(const Communicator& comm, const RecurrentOptions& options = {});
  ~Recurrent() override;

  /// This rank's time steps of a sequence of `steps` steps; none if begin == end. Local.
  Range block(int64_t steps) const;
  /// Runs the network. Collective, and so is the backward pass of its outputs. @param block this rank's steps, [steps here, batch, input]
  /// @param steps number of steps of the whole sequence
  /// @return the outputs, recorded by autograd. Each rank provides the cotangent of its `outputs`. The cotangent of `hidden` and `cell` counts only
  /// on the rank where the layer ends: rank 0 for a reverse direction, otherwise the last rank that has steps.
  /// @throws ContractError on every rank alike, naming ranks, if arguments are invalid or differ between ranks, and under autocast, which is not
  /// supported. If one rank throws anything else, the others throw RevokedError. In both cases, all ranks can run the next pass as usual.
  RecurrentOutput forward(const at::Tensor& block, int64_t steps, const RecurrentStart& start = {});

  /// Copies the parameters of a torch::nn::RNN, GRU or LSTM, by name. @throws ContractError if `module` lacks a parameter or has it in another shape
  void load(const torch::nn::Module& module);
  using torch::nn::Module::load;  // from an archive
  /// Copies this network's parameters to `module`, the inverse of load(). Local.
  void store(torch::nn::Module& module) const;

  void set_iterations(Iterations iterations) override;
  Iterations iterations() const override;
  void observe(PhaseObserver observer) override;
  /// Has one block per layer and direction, with names such as "l0" and "l0_reverse".
  NetworkReport report() const override;
  const RecurrentOptions& options() const noexcept;
  const Communicator& comm() const noexcept override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::layer_parallel
