// SPDX-License-Identifier: Apache-2.0
// Propagators that learn nothing: they cover the space, each parameter in its scale, choices with equal shares. Constraints are not looked at.
// (Random search is a Breeder with uniform_child().)
#pragma once
#include <tw/evolution/propagator.hpp>
#include <tw/evolution/sobol_sequence.hpp>

namespace tw::search {

/// Which of the points that several workers share are this one's: number `first`, and every `stride`-th after it. Worker w of n takes {w, n}.
struct Share {
  int64_t first = 0;
  int64_t stride = 1;

  /// @throws ContractError unless 0 <= first < stride
  void validate() const;
};

/// Of every `points` in a row, each of as many equal strata of each parameter holds one, at a random place; which ones go together is random. Depends
/// on the seed alone, which workers that share must have in common. Ref: McKay, Beckman & Conover 1979.
class LatinHypercube final : public Propagator {
 public:
  /// @param space borrowed. @param points of a hypercube, 1 to 2^20. @throws ContractError for another number or a wrong share
  LatinHypercube(const Space& space, int64_t points, uint64_t seed, Share share = {});
  Proposal ask(const Population& population, CounterRng& random) override;

 private:
  void deal(int64_t cube);

  const Space& space_;
  int64_t points_;
  uint64_t seed_;
  Share share_;
  int64_t next_;
  int64_t cube_ = -1;                         // the one that was dealt
  std::vector<std::vector<int64_t>> strata_;  // by parameter, by point
};

/// A Sobol sequence, scrambled by the seed, which workers that share must have in common. Depends on the seed alone. Any 2^m points that begin at a
/// multiple of 2^m cover every parameter evenly. It begins anew after 2^32 points.
/// Ref: Owen 2020, "On dropping the first Sobol' point" (why none is).
class Sobol final : public Propagator {
 public:
  /// @param space borrowed, of at most 64 parameters. @throws ContractError for more, or a wrong share
  Sobol(const Space& space, uint64_t seed, Share share = {});
  Proposal ask(const Population& population, CounterRng& random) override;

 private:
  const Space& space_;
  SobolSequence sequence_;
  std::vector<uint32_t> scrambles_;  // by parameter
  Share share_;
  int64_t next_;
};

}  // namespace tw::search
