// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/sampling.hpp>

#include <tw/base/contract.hpp>

namespace tw::search {
namespace {

/// A configuration from one number in [0, 1) for each parameter.
Proposal at(const Space& space, std::vector<double> units) {
  for (size_t i = 0; i < units.size(); ++i) units[i] = space.from_unit(i, units[i]);
  space.repair(units);
  return {.values = std::move(units)};
}

}  // namespace

void Share::validate() const {
  TW_EXPECTS(stride >= 1, "a share's stride must be at least 1, got ", stride);
  TW_EXPECTS(first >= 0 && first < stride, "a share's first must be 0 to ", stride - 1, ", got ", first);
}

LatinHypercube::LatinHypercube(const Space& space, int64_t points, uint64_t seed, Share share)
    : space_(space), points_(points), seed_(seed), share_(share), next_(share.first) {
  TW_EXPECTS(points >= 1 && points <= 1 << 20, "a Latin hypercube has 1 to 2^20 points, got ", points);
  share.validate();
}

void LatinHypercube::deal(int64_t cube) {
  cube_ = cube;
  strata_.clear();
  for (size_t i = 0; i < space_.size(); ++i) {
    strata_.push_back(random_permutation(points_, seed_, 2 * (static_cast<uint64_t>(cube) * space_.size() + i)));
  }
}

Proposal LatinHypercube::ask(const Population& /*population*/, CounterRng& /*random*/) {
  if (next_ / points_ != cube_) deal(next_ / points_);
  CounterRng places(seed_, 2 * static_cast<uint64_t>(next_) + 1);  // odd streams; those of the strata are even
  std::vector<double> units(space_.size());
  for (size_t i = 0; i < units.size(); ++i) {
    // At most 33 bits of a place and 20 of a stratum: the sum is exact, and off the edges by more than dividing can round.
    const double place = (static_cast<double>(places()) + 0.5) * 0x1p-32;
    units[i] = (static_cast<double>(strata_[i][static_cast<size_t>(next_ % points_)]) + place) / static_cast<double>(points_);
  }
  next_ += share_.stride;
  return at(space_, std::move(units));
}

Sobol::Sobol(const Space& space, uint64_t seed, Share share) : space_(space), sequence_(space.size()), share_(share), next_(share.first) {
  share.validate();
  CounterRng random(seed);
  for (size_t i = 0; i < space.size(); ++i) scrambles_.push_back(random());
}

Proposal Sobol::ask(const Population& /*population*/, CounterRng& /*random*/) {
  std::vector<double> units(space_.size());
  for (size_t i = 0; i < units.size(); ++i) {
    const uint32_t x = owen_scrambled(sequence_.at(i, static_cast<uint32_t>(next_)), scrambles_[i]);
    units[i] = (static_cast<double>(x) + 0.5) * 0x1p-32;
  }
  next_ += share_.stride;
  return at(space_, std::move(units));
}

}  // namespace tw::search
