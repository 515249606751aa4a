// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/mixture.hpp>

#include <tw/base/contract.hpp>
#include <tw/evolution/draws.hpp>

namespace tw::search {
namespace {

constexpr int32_t bred_run = -1;

}  // namespace

Mixture::Mixture(Breeder breeder, std::unique_ptr<Propagator> other, double bred)
    : breeder_(std::move(breeder)), other_(std::move(other)), bred_(bred) {
  TW_EXPECTS(other_ != nullptr, "a mixture needs two propagators");
  TW_EXPECTS(bred >= 0 && bred <= 1, "the share that is bred is 0 to 1, got ", bred);
}

Proposal Mixture::ask(const Population& population, CounterRng& random) {
  if (!bernoulli(random, bred_)) return other_->ask(population, random);
  Proposal proposal = breeder_.ask(population, random);
  proposal.tag.run = bred_run;
  return proposal;
}

void Mixture::tell(const Individual& individual) {
  if (individual.tag.run != bred_run) other_->tell(individual);
}

}  // namespace tw::search
