// SPDX-License-Identifier: Apache-2.0
// The points and steps on each level of a multigrid in time, and their assignment to ranks. Pure.
// Level 0 has the points 0 to N, and step k leads from point k to k + 1. Every c-th point of level l is a C-point, which is also a point of level l +
// 1; the others are F-points. A step of level l spans `stride` steps of level 0.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <tw/planning/per_level.hpp>
#include <vector>

namespace tw::layer_parallel {

struct LevelOptions {
  int levels = 2;                    ///< maximum number of levels; 1: serial
  PerLevel<int64_t> coarsening = 4;  ///< c, the number of points per point of the next coarser level; at least 2
  int64_t min_coarse = 2;            ///< minimum number of steps of each level except level 0

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(LevelOptions& options, OptionVisitor& visitor);

struct Level {
  int64_t steps = 0;
  int64_t stride = 1;      ///< level-0 steps per step of this level
  int64_t coarsening = 0;  ///< c, as in LevelOptions::coarsening; 0 on the coarsest

  bool coarsest() const noexcept { return coarsening == 0; }
  bool is_c_point(int64_t point) const noexcept { return coarsest() ? point == 0 : point % coarsening == 0; }
  bool operator==(const Level&) const = default;
};

/// The levels of a grid with `steps` steps. A step of level l + 1 covers c steps of level l; a remainder of fewer than c steps has no step on level
/// l + 1. A coarser level exists only if it has at least `min_coarse` steps. @param steps N, at least 1.
std::vector<Level> plan_levels(int64_t steps, const LevelOptions& options = {});

/// The number of steps in whole intervals of level 0. An interval is the c steps from one C-point to the next; all points of coarser levels lie at
/// ends of whole intervals. Equals `steps` if there is only one level.
int64_t steps_on_grid(int64_t steps, const LevelOptions& options);

/// Cuts `steps` into one contiguous block per rank; rank r gets [result[r], result[r + 1]). Block sizes are multiples of `unit`; the last unit also
/// contains the remaining steps. Blocks have nearly equal costs. If there are fewer whole units than ranks, the unit is a single step. If there are
/// fewer steps than ranks, some blocks are empty, but never the first.
/// @param costs one per step; empty: all equal. @param ranks at least 1. @return ranks + 1 numbers, from 0 to `steps`
std::vector<int64_t> partition_steps(int64_t steps, int ranks, int64_t unit, std::span<const double> costs = {});

/// Which rank executes a step of any level: one of those whose blocks contain the level-0 steps that the step spans.
enum class StepOwner {
  left,   ///< the rank with the first of these level-0 steps; for a network's layers
  right,  ///< the rank with the last of these level-0 steps: needs the fewest messages; for adjoints, and for steps that any rank can execute
};

/// Levels and their distribution over ranks. On all levels, a point has the same home: the rank whose level-0 step leads to it, and rank 0 for point
/// 0. A step is executed by its owner, see StepOwner. One message is sent if the owner is not the home of the step's first point, and one if it
/// is not the home of the last.
class LevelPlan {
 public:
  /// @param cuts as partition_steps() returns them.
  LevelPlan(std::vector<Level> levels, std::vector<int64_t> cuts, StepOwner owner);

  int levels() const noexcept { return static_cast<int>(levels_.size()); }
  const Level& level(int level) const { return levels_.at(static_cast<size_t>(level)); }
  int ranks() const noexcept { return static_cast<int>(cuts_.size()) - 1; }
  const std::vector<int64_t>& cuts() const noexcept { return cuts_; }
  StepOwner owner() const noexcept { return owner_; }

  /// The rank that executes `step` of `level`.
  int executor(int level, int64_t step) const;
  /// The rank that stores `point` of `level`.
  int home(int level, int64_t point) const;

  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t size() const noexcept { return end - begin; }
    bool contains(int64_t i) const noexcept { return begin <= i && i < end; }
    bool operator==(const Range&) const = default;
  };
  /// Steps that `rank` executes on `level`.
  Range steps_of(int level, int rank) const;
  /// Points of `level` whose home is `rank`.
  Range points_of(int level, int rank) const;

  /// `count` points: first, first + spacing, ...
  struct Points {
    int64_t first = 0;
    int64_t count = 0;
    int64_t spacing = 1;
    bool operator==(const Points&) const = default;
  };
  /// C-points of `level` whose home is `rank`. The coarsest level has one, point 0.
  Points c_points_of(int level, int rank) const;

  /// Numbers of steps by level and rank; for at most 100 steps on level 0, also a text diagram of points, C-points and homes.
  std::string describe() const;

 private:
  int rank_of(int64_t fine_step) const;

  std::vector<Level> levels_;
  std::vector<int64_t> cuts_;
  StepOwner owner_;
};

/// Plans levels and blocks of steps. Blocks consist of whole intervals of level 0 if each rank can have one. @param costs as for partition_steps()
LevelPlan level_plan(int64_t steps, int ranks, const LevelOptions& options, StepOwner owner, std::span<const double> costs = {});

/// The plan of the adjoint: points, steps and ranks are in reverse order. Rank r of `plan` is rank ranks() - 1 - r there, with the same level-0
/// steps.
LevelPlan mirrored(const LevelPlan& plan);

}  // namespace tw::layer_parallel
