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

/// A Sobol sequence, scrambled by the seed, which workers that share must have in common. Depends on the seed alone. Any 2^m points that begin at a
/// multiple of 2^m cover each of the first 64 parameters evenly; further parameters are uniform. It begins again after 2^32 points.
/// Ref: Owen 2020, "On dropping the first Sobol' point" (why none is).
class Sobol final : public Propagator {
 public:
  /// @param space borrowed. @throws ContractError for a wrong share
  Sobol(const Space& space, uint64_t seed, Share share = {});
  Proposal ask(const Population& population, CounterRng& random) override;

 private:
  const Space& space_;
  uint64_t seed_;
  SobolSequence sequence_;
  std::vector<uint32_t> scrambles_;  // by dimension of the sequence
  Share share_;
  int64_t next_;
};

}  // namespace tw::search
