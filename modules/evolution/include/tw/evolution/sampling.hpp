// SPDX-License-Identifier: Apache-2.0
// A propagator that ignores results and covers the space evenly: each parameter in its scale, and choices with equal shares. It also ignores
// constraints. (Random search is a Breeder with uniform_child().)
#pragma once
#include <tw/evolution/propagator.hpp>
#include <tw/evolution/sobol_sequence.hpp>

namespace tw::search {

/// One worker's share of a common sequence of points: point `first` and every `stride`-th after it. Worker w of n passes {w, n}.
struct Share {
  int64_t first = 0;
  int64_t stride = 1;

  /// @throws ContractError unless 0 <= first < stride
  void validate() const;
};

/// A Sobol sequence, scrambled by the seed. Workers that share the sequence must pass the same seed. The proposals depend only on the seed and the
/// share. Any 2^m consecutive points, beginning at an index that is a multiple of 2^m, cover each of the first 64 parameters evenly. Further
/// parameters are uniformly random. The first 64 parameters repeat after 2^32 points.
/// Ref: Owen 2020, "On dropping the first Sobol' point", on why the first point is kept.
class Sobol final : public Propagator {
 public:
  /// @param space copied. @throws ContractError for a wrong share
  Sobol(const Space& space, uint64_t seed, Share share = {});
  Proposal ask(const Population& population, CounterRng& random) override;

 private:
  Space space_;
  uint64_t seed_;
  SobolSequence sequence_;
  std::vector<uint32_t> scrambles_;  // by dimension of the sequence
  Share share_;
  int64_t next_;
};

}  // namespace tw::search
