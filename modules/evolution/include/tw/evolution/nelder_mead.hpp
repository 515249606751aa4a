// SPDX-License-Identifier: Apache-2.0
// Search by a simplex. Ref: Nelder & Mead 1965.
#pragma once
#include <limits>
#include <optional>
#include <tw/base/option.hpp>
#include <tw/evolution/propagator.hpp>

namespace tw::search {

struct NelderMeadOptions {
  /// Coefficients of the moves of a vertex h, where M is the mean of the other vertices.
  ///   reflection:   R = M + reflection * (M - h)
  ///   expansion:    E = M + expansion * (R - M)
  ///   contraction:  C = M + contraction * (k - M), where k is the better of h and R
  ///   shrinking:    each vertex x moves to b + shrinkage * (x - b), where b is the best vertex
  double reflection = 1;
  double expansion = 2;
  double contraction = 0.5;
  double shrinkage = 0.5;
  /// Side of the first simplex and of restarted ones, as a share of each dimension's range; at most 0.5. 0: an eighth times the number of dimensions,
  /// at most 0.5. This default grows because, with more dimensions, a simplex of a given side reaches less of the space, and with noisy losses it
  /// never leaves its start.
  double side = 0;
  /// A new simplex is started when all vertices are within this distance of the best one, as a share of each dimension's range.
  double collapsed = 1e-10;
  /// The first simplex's first vertex, as values of the space; empty: drawn from the seed.
  std::vector<double> start = {};

  /// `side`; if it is 0, its default for this number of dimensions. @param dimensions of the cube, at least 1
  double side_in(size_t dimensions) const noexcept;
  /// @throws ContractError naming the field that is wrong
  void validate(const Space& space) const;
};
void visit(NelderMeadOptions& options, OptionVisitor& visitor);

/// The coefficients of Gao & Han 2012, "Implementing the Nelder-Mead simplex algorithm with adaptive parameters", in the order of the fields, for n
/// dimensions: 1, 1 + 2/n, 3/4 - 1/(2 * n), 1 - 1/n.
/// @param dimensions at least 2. @throws ContractError for fewer
NelderMeadOptions adaptive_nelder_mead(size_t dimensions);

/// Moves the worst vertex of a simplex of dimensions + 1 vertices, in the unit cube of Space::encode(). Positions outside are clipped.
///
/// A move of the worst vertex h (see NelderMeadOptions for M, R, E and C):
/// a. Evaluate R.
/// b. If R is better than the best vertex: evaluate E. h becomes E if E is also better than the best vertex, otherwise R.
/// c. Otherwise, if R is better than the second worst vertex: h becomes R.
/// d. Otherwise, h becomes R if R is better than h. Then evaluate C: h becomes C if C is better than the current h.
/// e. If C is not better: all vertices shrink towards the best one.
/// This is Nelder & Mead 1965, except that equal losses do not count as better: plateaus would otherwise keep the simplex busy.
///
/// If ask() is called while R is in flight, it proposes points that may be needed next: E, C from h, and C from R. After these, it proposes
/// reflections of the second worst vertex, the third worst and so on; each replaces its vertex if it is better than the best vertex. When a move
/// ends, results of its proposals that are still in flight no longer change the simplex. If nothing is left to propose, for example while all
/// vertices of a new simplex are in flight, ask() proposes random points of the simplex's bounding box. Any number may be in flight, but more than
/// four are of little use. (Lee & Wiswall 2007 move the P worst vertices at once, about the mean of the others. On a sphere in 8 dimensions, their
/// method stagnates with P = 4, and P = 2 is no faster than P = 1.)
///
/// If another propagator's individual is better than the best vertex, it replaces the worst vertex, unless a simplex is still being placed. Failed
/// trials are worse than all others.
///
/// A new simplex is started when the simplex has collapsed or all vertices are equally good: alternately around the best individual of all and at a
/// random place. The same happens when the simplex has shrunk to a tenth of its first width but its losses still spread over 0.3 of their first
/// range: the differences are then noise, and the vertices were lucky.
///
/// Tags: run, the number of restarts; generation, the number of earlier moves and placements (modulo 2^31); index, which point of the move it is, or
/// -1 for random points.
/// Cost of ask() and tell(): O(dimensions^2).
class NelderMead final : public Propagator {
 public:
  /// @param space copied. @param seed for the first vertices of simplexes; workers that search together must pass different seeds, or they all
  /// propose the same points. @throws ContractError for a wrong option, or more than 2,000 dimensions
  NelderMead(const Space& space, NelderMeadOptions options, uint64_t seed);
  Proposal ask(const Population& population, CounterRng& random) override;
  void tell(const Individual& individual) override;

  int32_t restarts() const noexcept { return run_; }

 private:
  // Candidates of a move; after them, reflections of vertices from the second worst on.
  static constexpr size_t reflected = 0, expanded = 1, inside = 2, outside = 3, further = 4;

  struct Point {
    std::vector<double> position = {};
    Standing standing = {};
  };
  /// A point evaluated in this stage. A stage is the placing of a simplex, or one move.
  struct Candidate {
    Point point = {};
    std::optional<Proposal> proposal = std::nullopt;
    bool known = false;
  };

  void restart();
  void place(std::vector<std::vector<double>> positions);
  void begin_stage(size_t candidates);
  void end_placing();
  void begin_move();
  std::optional<size_t> wanted();
  size_t needed_after_reflection() const;
  std::vector<double> reflection_of(size_t rank) const;
  std::vector<double> random_in_box(CounterRng& random) const;
  void decide();
  void replace(size_t rank, Point point);
  void shrink();
  double spread() const;
  bool lies_within(double side) const;
  bool has_collapsed() const;
  bool is_lost_in_noise() const;

  Space space_;
  NelderMeadOptions options_;
  uint64_t seed_;
  std::vector<Point> simplex_;  // from the best to the worst; while placing, only vertices that stay
  std::vector<Candidate> candidates_;
  std::vector<Proposal> dropped_;  // in flight, but no longer needed
  double first_spread_ = 0;        // range of the losses of this run's first simplex
  bool placing_ = false;
  Point best_ever_;
  int32_t run_ = 0;
  uint32_t stage_ = 0;
};

}  // namespace tw::search
