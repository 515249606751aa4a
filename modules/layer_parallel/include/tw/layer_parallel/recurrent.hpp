// SPDX-License-Identifier: Apache-2.0
// Recurrent networks whose time steps are shared among ranks, which make their parts at the same time.
#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <tw/layer_parallel/cell.hpp>
#include <tw/layer_parallel/iterated_network.hpp>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw::layer_parallel {

/// How the steps of a layer are made in parallel. Besides Mgrit: Newton's method with all of a step's Jacobian, or with its diagonal. Then
/// `iterations`, `tolerance`, `residuals`, `norm` and `on_divergence` of forward and backward are what counts, there are no coarse levels, and
/// the report models no speed-up.
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
  int levels = 2;                    ///< at most; 1: serial
  PerLevel<int64_t> coarsening = 8;  ///< time steps of a level for one of the next
  int64_t min_coarse = 2;            ///< steps that a level has at least
  MgritOptions forward = {.iterations = 2};
  MgritOptions backward = {.iterations = 1};
  /// Steps over which the first weights are to remember, at most: biases of the gates are drawn so that they forget after 1 to that many steps; 0: as
  /// torch::nn draws them. Not of an rnn. Ref: Tallec & Ollivier 2018, arXiv 1804.11188
  int64_t longest_memory = 0;
  uint64_t seed = 0;  ///< of initial values

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(RecurrentOptions& options, OptionVisitor& visitor);
/// Visits the options that the configuration of a training sets in addition to IterationOptions.
void visit_training(RecurrentOptions& options, OptionVisitor& visitor);

/// Optional inputs of a pass in addition to the sequence, the same on all ranks.
struct RecurrentStart {
  /// int64 [batch] on the CPU: steps of each sequence, 0 to all; after its end its state stays, and outputs are 0. Undefined: all.
  at::Tensor lengths = {};
  at::Tensor hidden = {};  ///< [layers * directions, batch, hidden]; undefined: zeros
  at::Tensor cell = {};    ///< the same, of an lstm
};

struct RecurrentOutput {
  at::Tensor outputs;  ///< of the last layer, after each step of this rank's block [steps, batch, directions * hidden]
  at::Tensor hidden;   ///< at the end of each sequence, on every rank [layers * directions, batch, hidden]
  at::Tensor cell;     ///< the same, of an lstm; else undefined
};

/// torch::nn::RNN (tanh), GRU or LSTM over blocks of time, one of each rank: multigrid in time or Newton's method, layer by layer. Each layer's input
/// products are made at once, for all levels and iterations. Parameters are whole on every rank, with the names of torch::nn's, and so are their
/// gradients, which the backward pass adds up over the ranks.
///
/// Passes are iterations: an approximation, exact when there are enough of them. The gradient is that of the last relaxation. Ref: Moon & Cyr 2022,
/// arXiv 2203.04738.
class Recurrent : public torch::nn::Module, public IteratedNetwork {
 public:
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
  };

  /// Collective. @param comm duplicated. @throws ContractError on every rank when options are wrong or differ
  explicit Recurrent(const Communicator& comm, const RecurrentOptions& options = {});
  ~Recurrent() override;

  /// Which time steps of a sequence of `steps` this rank has; none where begin == end. Local.
  Range block(int64_t steps) const;
  /// Collective, and so is the backward pass of its outputs, on all ranks together. @param block this rank's steps [steps here, batch, input]
  /// @param steps of the whole sequence
  /// @return with a graph of autograd. The cotangent of `outputs` is each rank's own; of `hidden` and `cell`, which all have, that of the rank on
  /// which the layer ends counts (of a reverse direction rank 0, else the last).
  /// @throws ContractError on every rank alike, naming ranks, for what does not fit or differs between ranks, and under autocast, for which it is
  /// not. Whatever else ends a pass on one rank ends it on the others with a RevokedError; the next pass is made as usual, on all ranks.
  RecurrentOutput forward(const at::Tensor& block, int64_t steps, const RecurrentStart& start = {});

  /// Copies the parameters of a torch::nn::RNN, GRU or LSTM, by name. @throws ContractError for one that is missing or has another shape
  void load(const torch::nn::Module& module);
  /// The inverse of load(). Local.
  void store(torch::nn::Module& module) const;

  void set_iterations(Iterations iterations) override;
  Iterations iterations() const override;
  void observe(PhaseObserver observer) override;
  /// By layer and direction, such as "l0" and "l0_reverse".
  NetworkReport report() const override;
  const RecurrentOptions& options() const noexcept;
  const Communicator& comm() const noexcept override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::layer_parallel
