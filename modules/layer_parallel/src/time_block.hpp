// SPDX-License-Identifier: Apache-2.0
// One recurrent layer in one direction of time, over the ranks of a communicator.
#pragma once
#include <memory>
#include <optional>
#include <tw/layer_parallel/cell.hpp>
#include <tw/layer_parallel/iterated_network.hpp>
#include <tw/parallel_in_time/states.hpp>
#include <vector>

#include "saved_versions.hpp"
#include "time_windows.hpp"

namespace tw::layer_parallel {

/// The grid for sequences of one length, split over the ranks, with a solver for each direction of a pass. Steps beyond the end of a sequence pad the
/// last interval; no time passes in them.
class TimeGrid {
 public:
  /// Collective. @param comm ranks in the order of time @param reversed the same ranks in reverse order @param cuts first step of each rank, and the
  /// end
  /// @param newton solves by Newton's method with these Jacobians, using the options that both methods share; none: Mgrit
  TimeGrid(const Communicator& comm, const Communicator& reversed, std::vector<int64_t> cuts, const LevelOptions& levels, const MgritOptions& forward,
           const MgritOptions& backward, std::optional<JacobianKind> newton, const PhaseObserver& observer);
  /// Cuts of a sequence of `steps` into whole intervals, if there are enough.
  static std::vector<int64_t> cuts_of(int64_t steps, int ranks, const LevelOptions& levels);

  int64_t steps() const noexcept { return steps_; }
  const LevelPlan& plan() const noexcept { return plan_; }
  const LevelPlan& reversed_plan() const noexcept { return reversed_plan_; }
  const Communicator& comm() const noexcept { return comm_; }
  /// Steps of this rank, including padding.
  LevelPlan::Range block() const { return plan_.steps_of(0, comm_.rank()); }
  /// Steps of all ranks.
  std::vector<LevelPlan::Range> blocks() const;
  /// The steps of `level` on each rank, as windows of level 0. Windows of the adjoint end at the points of the adjoint's grid.
  std::vector<Windows> windows(int level, bool adjoint) const;
  ParallelInTime& forward() noexcept { return *forward_; }
  ParallelInTime& backward() noexcept { return *backward_; }

  /// The same on all ranks.
  void set_iterations(Iterations iterations);
  /// See NetworkReport. Simulated at the first call.
  double modelled_speed_up();

 private:
  const Communicator& comm_;
  int64_t steps_;
  LevelPlan plan_;
  LevelPlan reversed_plan_;
  MgritOptions forward_options_;
  MgritOptions backward_options_;
  std::optional<double> modelled_speed_up_;
  std::unique_ptr<ParallelInTime> forward_;
  std::unique_ptr<ParallelInTime> backward_;
};

/// What a forward pass keeps for its backward pass.
struct TimePass {
  StateWeights weights;
  CoarseCell coarse = CoarseCell::frozen_gates;
  at::Tensor inputs;  ///< input products of this rank's steps [steps, batch, gates * hidden]
  at::Tensor passes;  ///< 1 where time passes, else 0 [steps, batch, 1]; undefined: everywhere
  State kept;         ///< kept values of the steps, see CellStep
  Stored c_states;
  State like;              ///< any state, for its shape
  SavedVersions versions;  ///< versions of tensors that the backward pass reads and that have other owners
};

struct TimeResult {
  at::Tensor outputs;  ///< h after each step of this rank [steps, batch, hidden]
  State end;           ///< on the last rank of the grid; elsewhere empty
  Report report;
};

/// Collective. @param pass weights, coarse, inputs and passes are inputs; the rest is filled in if `record`.
TimeResult run_forward(TimeGrid& grid, TimePass& pass, const State& origin, bool record);

struct TimeGradient {
  at::Tensor of_inputs;    ///< gradients of the input products, of the same shape
  at::Tensor of_products;  ///< gradients of p in each step
  State of_origin;         ///< on the first rank of the grid; elsewhere empty
  Report report;
};
/// Collective. @param outputs cotangents of the outputs; undefined: none @param end cotangent of the end state, on the last rank; elsewhere any state
/// of the same shape
TimeGradient run_backward(TimeGrid& grid, const TimePass& pass, const at::Tensor& outputs, const State& end);

}  // namespace tw::layer_parallel
