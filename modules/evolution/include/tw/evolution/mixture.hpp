// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/evolution/breeding.hpp>

namespace tw::search {

/// Two propagators beside each other: each proposal is bred, with probability `bred`, and the other's otherwise. What is bred has all individuals as
/// parents; the other one is told of its own proposals alone, here and elsewhere.
class Mixture final : public Propagator {
 public:
  /// @param other its tags have runs of at least 0. @throws ContractError without it, or if `bred` is no probability
  Mixture(Breeder breeder, std::unique_ptr<Propagator> other, double bred);

  Proposal ask(const Population& population, CounterRng& random) override;
  void tell(const Individual& individual) override;

 private:
  Breeder breeder_;
  std::unique_ptr<Propagator> other_;
  double bred_;
};

}  // namespace tw::search
