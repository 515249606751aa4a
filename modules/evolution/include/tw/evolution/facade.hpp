// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/evolution/propagator.hpp>
#include <utility>

namespace tw::search {

/// Base of a propagator that forwards all calls to another one, whose implementation can thus stay out of headers.
class Facade : public Propagator {
 public:
  Proposal ask(const Population& population, CounterRng& random) final { return propagator_->ask(population, random); }
  void tell(const Individual& individual) final { propagator_->tell(individual); }

 protected:
  explicit Facade(std::unique_ptr<Propagator> propagator) : propagator_(std::move(propagator)) {}

 private:
  std::unique_ptr<Propagator> propagator_;
};

}  // namespace tw::search
