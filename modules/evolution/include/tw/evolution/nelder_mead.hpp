// SPDX-License-Identifier: Apache-2.0
// Search by a simplex. Ref: Nelder & Mead 1965.
#pragma once
#include <limits>
#include <optional>
#include <tw/base/option.hpp>
#include <tw/evolution/propagator.hpp>

namespace tw::search {

struct NelderMeadOptions {
  /// Where a vertex h goes, M being the mean of the others: R = M + reflection (M - h), E = M + expansion (R - M), and C = M + contraction (k - M)
  /// with the better k of h and R. Shrinking takes x to b + shrinkage (x - b), with the best vertex b.
  double reflection = 1;
  double expansion = 2;
  double contraction = 0.5;
  double shrinkage = 0.5;
  /// Of the first simplex and of those of restarts, as a share of each dimension's range; at most 0.5. 0: an eighth for each dimension, at most 0.5:
  /// the more there are, the less of the space a simplex of a given side reaches, and where losses are noisy it never leaves where it began.
  double side = 0;
  /// A simplex this small, as a share of the range, is abandoned for a new one.
  double collapsed = 1e-10;
  /// Values of the space as the first simplex's first vertex; empty: drawn from the seed, as in restarts.
  std::vector<double> start = {};

  /// `side`, or what it stands for. @param dimensions of the cube, at least 1
  double side_in(size_t dimensions) const noexcept;
  /// @throws ContractError naming the field that is wrong
  void validate(const Space& space) const;
};
void visit(NelderMeadOptions& options, OptionVisitor& visitor);

/// The coefficients of Gao & Han 2012, "Implementing the Nelder-Mead simplex algorithm with adaptive parameters": 1, 1 + 2/n, 3/4 - 1/(2n), 1 - 1/n.
/// @param dimensions 2 at least. @throws ContractError for fewer
NelderMeadOptions adaptive_nelder_mead(size_t dimensions);

/// A simplex of dimensions + 1 vertices, of which the worst one moves, in the unit cube of Space::encode(); positions outside are clipped.
///
/// A move, of the worst vertex h:
/// a. M is the mean of the others. Evaluate R.
/// b. R better than the best vertex: evaluate E; h becomes E if that is better than the best vertex, too, and R otherwise.
/// c. R better than the second worst vertex: h becomes R.
/// d. Otherwise h becomes R if that is better than h. Evaluate C; h becomes C if that is better than h.
/// e. Otherwise all but the best shrink towards it.
/// This is Nelder & Mead 1965, but that equal losses are not better, so that plateaus do not keep it busy.
///
/// Asked for more while R is in flight it proposes what may be needed next - E, C from h, C from R -, and then reflections of the second worst
/// vertex, the third worst and so on, each of which replaces its vertex if it is better than the best. Of a move that is over, what is in flight is
/// dropped. While nothing is left to propose, as where all vertices of a new simplex are in flight, random points of its bounding box are. So any
/// number may be in flight, but more than four at a time are of little use.
/// (Lee & Wiswall 2007 move the P worst vertices at once, about the mean of those that stay. On a sphere in 8 dimensions that stagnates with P = 4,
/// and takes as long with P = 2 as with P = 1.)
///
/// An individual of others that is better than the best vertex replaces the worst one, unless vertices are still being placed. What failed is worse
/// than everything else.
///
/// Restarts when the simplex has collapsed, or all vertices are equally good: alternately around the best individual of all and at a random place. So
/// it does when the simplex is a tenth as wide as at first and its losses still lie apart by 0.3 of what they did: that is noise, and vertices are
/// lucky ones.
///
/// Tags: run, restarts; generation, moves and placements before (modulo 2^31); index, which of its points, -1 for random ones.
/// Cost of ask() and tell(): O(dimensions^2).
class NelderMead final : public Propagator {
 public:
  /// @param space borrowed. @param seed of the first vertices of simplexes; workers that search together have different ones, or all do the same.
  /// @throws ContractError for a wrong option, or more than 2,000 dimensions
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
  /// Evaluated in this stage: while placing the simplex, or in one move.
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
  size_t needed_behind_reflection() const;
  std::vector<double> reflection_of(size_t rank) const;
  std::vector<double> random_in_box(CounterRng& random) const;
  void decide();
  void replace(size_t rank, Point point);
  void shrink();
  double spread() const;
  bool lies_within(double side) const;
  bool has_collapsed() const;
  bool is_lost_in_noise() const;

  const Space& space_;
  NelderMeadOptions options_;
  uint64_t seed_;
  std::vector<Point> simplex_;  // from the best to the worst; while placing, those that stay
  std::vector<Candidate> candidates_;
  std::vector<Proposal> dropped_;  // in flight, of no use to this stage
  double first_spread_ = 0;        // of the losses of this run's first simplex
  bool placing_ = false;
  Point best_ever_;
  int32_t run_ = 0;
  uint32_t stage_ = 0;
};

}  // namespace tw::search
