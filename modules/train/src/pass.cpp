// SPDX-License-Identifier: Apache-2.0
#include "pass.hpp"

#include <array>
#include <span>
#include <tw/base/random.hpp>

namespace tw::train {

uint64_t seed_of_pass(int64_t seed, int64_t number) { return derived_seed(static_cast<uint64_t>(seed), static_cast<uint64_t>(number)); }

Batch first_samples(const Dataset& dataset, c10::Device device) {
  const std::array<int64_t, 2> first{0, 1};
  const Batch batch = dataset.batch(std::span(first).first(dataset.size() > 1 ? 2 : 1));
  return {batch.inputs.to(device), batch.targets.to(device)};
}

}  // namespace tw::train
