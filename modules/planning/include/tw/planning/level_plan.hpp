// SPDX-License-Identifier: Apache-2.0
// Which points and steps the levels of a multigrid in time have, and which rank has them. Pure.
//
// Level 0 has the points 0 to N, and step k leads from point k to k + 1. Of level l, every c-th point is a C-point, which is also a point of level
// l + 1; the others are F-points. A step of level l spans `stride` steps of level 0.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <tw/planning/per_level.hpp>
#include <vector>

namespace tw::layer_parallel {

struct LevelOptions {
  int levels = 2;                    ///< at most; 1: serial
  PerLevel<int64_t> coarsening = 4;  ///< c: points of a level for one of the next; at least 2
  int64_t min_coarse = 2;            ///< a level has at least this many steps

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(LevelOptions& options, OptionVisitor& visitor);

struct Level {
  int64_t steps = 0;
  int64_t stride = 1;      ///< steps of level 0 in a step of this one
  int64_t coarsening = 0;  ///< c, to the next level; 0 on the coarsest

  bool coarsest() const noexcept { return coarsening == 0; }
  bool is_c_point(int64_t point) const noexcept { return coarsest() ? point == 0 : point % coarsening == 0; }
  bool operator==(const Level&) const = default;
};

/// Level l + 1 has the whole c-fold steps of level l, and exists as long as they are at least `min_coarse`. @param steps N, at least 1.
std::vector<Level> plan_levels(int64_t steps, const LevelOptions& options = {});

/// This many of the `steps` make whole intervals of level 0: the points of all levels are among theirs. All, if there is only one level.
int64_t steps_on_grid(int64_t steps, const LevelOptions& options);

/// Cuts `steps` into contiguous blocks, rank r's being [result[r], result[r + 1]): as equal in cost as whole multiples of `unit` allow. With fewer
/// such multiples than ranks, single steps; with fewer steps than ranks, some blocks are empty, but never the first.
/// @param costs one for each step; empty: all alike. @param ranks at least 1. @return ranks + 1 numbers, from 0 to `steps`
std::vector<int64_t> partition_steps(int64_t steps, int ranks, int64_t unit, std::span<const double> costs = {});

/// Where what a step needs is to be had.
enum class StepOwner {
  left,   ///< a step of any level belongs to the rank that has the finest step at its left end (a network's layers)
  right,  ///< at its right end: fewest messages, for steps that any rank can make, and for adjoints
};

/// Levels and their distribution. A point never moves: on all levels it has one home, the rank whose finest step leads to it. Steps are executed by
/// their owner, and a message travels wherever that is not the home of the point that the step starts from, or leads to.
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
  /// The rank that has `point` of `level`.
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

  /// first, first + spacing, ...
  struct Points {
    int64_t first = 0;
    int64_t count = 0;
    int64_t spacing = 1;
    bool operator==(const Points&) const = default;
  };
  /// C-points of `level` whose home is `rank`. The coarsest level has one, point 0.
  Points c_points_of(int level, int rank) const;

  /// Points, C-points and homes as a picture, for up to some 100 points; beyond that, figures alone.
  std::string describe() const;

 private:
  int rank_of(int64_t fine_step) const;

  std::vector<Level> levels_;
  std::vector<int64_t> cuts_;
  StepOwner owner_;
};

/// Levels, and blocks of steps that are whole intervals of level 0 where there are enough of these. @param costs as partition_steps() takes them
LevelPlan level_plan(int64_t steps, int ranks, const LevelOptions& options, StepOwner owner, std::span<const double> costs = {});

/// The plan of the adjoint: points, steps and ranks in reverse order, each step executed where `plan` has it.
LevelPlan mirrored(const LevelPlan& plan);

}  // namespace tw::layer_parallel
