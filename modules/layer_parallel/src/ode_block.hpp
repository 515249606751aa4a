// SPDX-License-Identifier: Apache-2.0
// An ODE block over the ranks of a communicator: front layers, layers in parallel, back layers.
#pragma once
#include <ATen/ops/zeros.h>

#include <memory>
#include <optional>
#include <tw/layer_parallel/layer_parallel.hpp>

#include "evolution.hpp"
#include "saved_versions.hpp"

namespace tw::layer_parallel {

class OdeBlock {
 public:
  /// @param reversed the ranks of `comm` in reverse order. @param stream separates the random numbers of blocks.
  OdeBlock(const Communicator& comm, const Communicator& reversed, const Block& block, const LayerParallelOptions& options, uint64_t stream,
           PhaseObserver observer);

  /// Number of layers of the block.
  int64_t layers() const noexcept { return layers_; }
  double step_size() const noexcept { return h_; }
  LayerStack& stack() noexcept { return stack_; }
  const LayerStack& stack() const noexcept { return stack_; }
  /// The ranks that have the first and the last layer.
  Rank first_rank() const { return Rank(plan_.home(0, 0)); }
  Rank last_rank() const { return Rank(plan_.home(0, plan_.level(0).steps)); }
  /// The rank that has layer `index`; none if there is no such layer.
  std::optional<Rank> rank_of_layer(int64_t index) const;
  /// The same on all ranks.
  void set_iterations(Iterations iterations);

  /// State that a forward pass keeps for its backward pass.
  struct Pass;
  /// Collective. @param input u_0 on first_rank(); elsewhere any state of the same shape. @param pass null: no backward pass follows.
  /// @return the state after the last layer on last_rank(); empty elsewhere
  State forward(const State& input, const State& extras, const std::shared_ptr<Pass>& pass);
  /// Collective. @param cotangent of the result on last_rank(); elsewhere any state of the same shape. @param gradients by parameter, of the stacks'
  /// shapes; gradients are added. @param retain keeps the pass for another backward pass; otherwise it is released as it is used
  /// @return the cotangent of the input on first_rank(); empty elsewhere
  State backward(Pass& pass, const State& cotangent, const std::vector<at::Tensor>& gradients, bool retain);

  const Report& forward_report() const noexcept { return forward_.report(); }
  const Report& backward_report() const noexcept { return backward_.report(); }
  /// See NetworkReport. Simulated at the first call.
  double modelled_speed_up();
  void set_calls(int64_t number) { calls_.fill_(number); }
  /// Number of the next pass, from which random layers derive their seeds.
  int64_t number_of_calls() const { return calls_.item<int64_t>(); }
  /// Seed of random layers. The same on all ranks.
  void set_random_seed(uint64_t seed) noexcept { random_seed_ = seed; }
  /// number_of_calls() as a tensor, int64 []; none if no layer is random.
  std::optional<at::Tensor> calls() const { return random_ ? std::optional(calls_) : std::nullopt; }

 private:
  /// Solves one direction, pass after pass.
  class Direction {
   public:
    /// Collective. @param guess previous: starts from the previous solution, if its states have the shapes of those in solve()
    Direction(const Communicator& comm, const LevelPlan& plan, MgritOptions options, Guess guess, const PhaseObserver& observer);
    /// Collective.
    Solution solve(Propagator& propagator, const State& state);
    void set_iterations(int iterations);
    const Report& report() const noexcept { return report_; }

   private:
    State c_points(const Solution& solution) const;
    /// Whether the previous solution has states like `state`.
    bool has_guess(const State& state) const;

    LevelPlan::Points c_points_;  // C-points of this rank
    Guess guess_;
    std::unique_ptr<Mgrit> from_zero_;
    std::unique_ptr<Mgrit> from_guess_;
    State before_;  // previous solution at C-points, for Guess::previous
    Report report_;
  };

  Evolution evolution(uint64_t call);
  SavedVersions versions(const State& extras) const;

  const Communicator& comm_;
  const Communicator& reversed_comm_;
  LayerParallelOptions options_;
  PhaseObserver observer_;
  bool random_;
  uint64_t random_seed_;
  uint64_t stream_;
  int64_t layers_;
  double h_;
  int64_t front_;  // layers before the grid
  int64_t back_;   // layers after the grid
  LevelPlan plan_;
  LevelPlan reversed_plan_;  // plan of the adjoint, mirrored
  LayerStack stack_;
  at::Tensor calls_ = at::zeros({}, at::kLong);
  std::optional<double> modelled_speed_up_;
  Direction forward_;
  Direction backward_;
};

struct OdeBlock::Pass {
  Tape tape;  // records of front, grid, back
  std::optional<size_t> front;
  std::optional<size_t> back;
  uint64_t call = 0;
  std::optional<LayerStack::Modes> modes;
  SavedVersions versions;  // versions of parameters and extras
};

}  // namespace tw::layer_parallel
