// SPDX-License-Identifier: Apache-2.0
// The order in which an iteration of the full approximation scheme (FAS) visits the levels. Pure.
#pragma once
#include <string_view>
#include <tw/planning/per_level.hpp>
#include <tw/planning/sweep.hpp>
#include <vector>

namespace tw::layer_parallel {

struct CycleOptions {
  /// nu, the number of relaxations before each restriction: 0 is F-relaxation, 1 is FCF-relaxation. `{0, 1}` is FCF-relaxation on coarse levels only.
  PerLevel<int> relaxations = 1;
  /// Whether the first iteration begins on the coarsest level, with the initial guess. This iteration then solves there first, and has no residual.
  bool skip_downcycle = true;
  /// 0: V-cycles. Otherwise F-cycles: during the ascent, this many V-cycles run on every level between the coarsest and the finest.
  int f_cycle = 0;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(CycleOptions& options, OptionVisitor& visitor);

/// A part of an iteration. All ranks execute it together, on one level. In the formulas, u are the values at the points, v those that were copied
/// from the finer level, f is the right-hand side, and w the relaxation weight. C is a C-point, and I is its index on the next level.
struct Phase {
  enum class Kind {
    relax,     ///< F- and then C-relaxation: u_C <- w * (step(u_{C-1}) + f_C) + (1 - w) * u_C
    restrict,  ///< F-relaxation and residual r; then on level + 1: u = v = u_C, f_I = r_I + v_I - step(v_{I-1})
    inject,    ///< on level + 1: u = v = u_C, without f
    solve,     ///< the coarsest level, serially: u_I = step(u_{I-1}) + f_I
    fill,      ///< F-relaxation
    correct,   ///< u_C <- u_C + (u - v) of level + 1
  };
  Kind kind;
  int level;

  bool operator==(const Phase&) const = default;
};
inline constexpr int phase_kinds = 6;
const char* name_of(Phase::Kind kind);

/// The phases of one iteration, which computes the values at the C-points of level 0. @param first whether it is the first iteration
/// Ref: Brandt 1977 (FAS); Falgout et al. 2014 (MGRIT), SISC 36:6.
std::vector<Phase> plan_cycle(int levels, const CycleOptions& options, bool first);

/// A sweep of all ranks over a level; each rank executes its plan_sweep().
struct Sweep {
  int level = 0;
  SweepKind kind = SweepKind::all;
};
/// The sweeps of a phase, in order.
std::vector<Sweep> sweeps_of(const Phase& phase);

}  // namespace tw::layer_parallel
