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

/// The parallel-in-time solver of a layer: MGRIT, or Newton's method with the full Jacobian or its diagonal. Newton's method uses only `iterations`,
/// `tolerance`, `residuals`, `norm` and `on_divergence` of forward and backward. It has no coarse levels, and the report models no speed-up.
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
  PerLevel<int64_t> coarsening = 8;  ///< time steps of a level per step of the next
  int64_t min_coarse = 2;            ///< minimum number of steps of a level
  MgritOptions forward = {.iterations = 2};
  MgritOptions backward = {.iterations = 1};
  /// Longest memory of the initial weights: gate biases are drawn so that units forget after 2 to this many steps. It must exceed 2, and needs a gru
  /// or an lstm with biases. 0: weights as torch::nn draws them. Ref: Tallec & Ollivier 2018, arXiv 1804.11188
  int64_t longest_memory = 0;
  uint64_t seed = 0;  ///< seed of initial values

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(RecurrentOptions& options, OptionVisitor& visitor);
/// Visits the options that the configuration of a training run sets in addition to IterationOptions.
void visit_training(RecurrentOptions& options, OptionVisitor& visitor);

/// Optional inputs of a pass in addition to the sequence, the same on all ranks.
struct RecurrentStart {
  /// Number of steps of each sequence, 0 to all: int64 [batch] on the CPU. After a sequence's end its state stays constant, and outputs are 0.
  /// Undefined: all steps.
  at::Tensor lengths = {};
  at::Tensor hidden = {};  ///< [layers * directions, batch, hidden]; undefined: zeros
  at::Tensor cell = {};    ///< the same, for an lstm
};

struct RecurrentOutput {
  at::Tensor outputs;  ///< the last layer's outputs for this rank's steps, [steps, batch, directions * hidden]
  at::Tensor hidden;   ///< the state at the end of each sequence, on every rank, [layers * directions, batch, hidden]
  at::Tensor cell;     ///< the same, for an lstm; otherwise undefined
};

/// torch::nn::RNN (tanh), GRU or LSTM with one block of time steps per rank, solved layer by layer by multigrid in time or Newton's method. Each
/// layer's input products are computed once, for all levels and iterations. Every rank has all parameters, with the names of torch::nn, and their
/// full gradients, which the backward pass sums over the ranks.
///
/// Passes are computed by iterations: their results are approximations, which become exact with enough iterations. The gradient is the gradient of
/// the last relaxation. Ref: Moon & Cyr 2022, arXiv 2203.04738.
class Recurrent : public torch::nn::Module, public IteratedNetwork {
 public:
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };

  /// Collective. @param comm duplicated. @throws ContractError on every rank if options are wrong or differ
  explicit Recurrent(const Communicator& comm, const RecurrentOptions& options = {});
  ~Recurrent() override;

  /// This rank's time steps of a sequence of `steps`; none if begin == end. Local.
  Range block(int64_t steps) const;
  /// Runs the network. Collective, and so is the backward pass of its outputs. @param block this rank's steps, [steps here, batch, input]
  /// @param steps number of steps of the whole sequence
  /// @return the outputs, recorded by autograd. Each rank provides the cotangent of its `outputs`. For `hidden` and `cell`, only the cotangent on the
  /// rank where the layer ends counts: rank 0 for a reverse direction, otherwise the last rank.
  /// @throws ContractError on every rank alike, naming ranks, for arguments that do not fit or differ between ranks, and under autocast, which is not
  /// supported. Any other error on one rank raises RevokedError on the others. All ranks can then run the next pass as usual.
  RecurrentOutput forward(const at::Tensor& block, int64_t steps, const RecurrentStart& start = {});

  /// Copies the parameters of a torch::nn::RNN, GRU or LSTM, by name. @throws ContractError for a parameter that is missing or has a different shape
  void load(const torch::nn::Module& module);
  using torch::nn::Module::load;  // from an archive
  /// The inverse of load(). Local.
  void store(torch::nn::Module& module) const;

  void set_iterations(Iterations iterations) override;
  Iterations iterations() const override;
  void observe(PhaseObserver observer) override;
  /// Statistics by layer and direction, such as "l0" and "l0_reverse".
  NetworkReport report() const override;
  const RecurrentOptions& options() const noexcept;
  const Communicator& comm() const noexcept override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::layer_parallel
