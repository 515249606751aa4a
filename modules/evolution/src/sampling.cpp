// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/sampling.hpp>

#include <algorithm>
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
  TW_EXPECTS(stride >= 1, "a share's `stride` must be at least 1, got ", stride);
  TW_EXPECTS(first >= 0 && first < stride, "a share's `first` must be between 0 and ", stride - 1, ", got ", first);
}

Sobol::Sobol(const Space& space, uint64_t seed, Share share)
    : space_(space), seed_(seed), sequence_(std::min(space.size(), SobolSequence::max_dimensions)), share_(share), next_(share.first) {
  share.validate();
  CounterRng random(seed);
  for (size_t i = 0; i < sequence_.dimensions(); ++i) scrambles_.push_back(random());
}

Proposal Sobol::ask(const Population& /*population*/, CounterRng& /*random*/) {
  CounterRng others(seed_, static_cast<uint64_t>(next_) + 1);
  std::vector<double> units(space_.size());
  for (size_t i = 0; i < units.size(); ++i) {
    const uint32_t x = i < scrambles_.size() ? owen_scrambled(sequence_.at(i, static_cast<uint32_t>(next_)), scrambles_[i]) : others();
    units[i] = (static_cast<double>(x) + 0.5) * 0x1p-32;
  }
  next_ += share_.stride;
  return at(space_, std::move(units));
}

}  // namespace tw::search
