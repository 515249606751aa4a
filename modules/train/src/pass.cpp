// SPDX-License-Identifier: Apache-2.0
#include "pass.hpp"

#include <ATen/TensorOperators.h>

#include <tw/base/random.hpp>

namespace tw::train {

uint64_t seed_of_pass(int64_t seed, int64_t number) {
  CounterRng random(static_cast<uint64_t>(seed), static_cast<uint64_t>(number));
  const uint64_t high = random();
  return (high << 32) | random();
}

at::Tensor loss_of_nothing(const Model& model) {
  at::Tensor loss;
  for (const NamedTensor& parameter : model.parameters) {
    if (!parameter.tensor.requires_grad()) continue;
    const at::Tensor zero = parameter.tensor.flatten().slice(0, 0, 0).sum();
    loss = loss.defined() ? loss + zero.to(loss.scalar_type()) : zero;
  }
  return loss;
}

}  // namespace tw::train
