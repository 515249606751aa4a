// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/evolution/propagator.hpp>
#include <utility>

namespace tw::search {

/// Forwards to another propagator, so that the implementation can stay out of headers.
class Facade : public Propagator {
 public:
  Proposal ask(const Population& population, CounterRng& random) final { return behind_->ask(population, random); }
  void tell(const Individual& individual) final { behind_->tell(individual); }

 protected:
  explicit Facade(std::unique_ptr<Propagator> behind) : behind_(std::move(behind)) {}

 private:
  std::unique_ptr<Propagator> behind_;
};

}  // namespace tw::search
