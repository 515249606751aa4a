// SPDX-License-Identifier: Apache-2.0
#include "reducer_hook.hpp"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace tw {

std::vector<Reduction> reductions_of(const at::Tensor& parameter) {
  std::vector<Reduction> all;
  if (!parameter.defined() || !parameter.is_leaf()) return all;
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
  if (!accumulator) return all;
  for (const auto& hook : accumulator->pre_hooks()) {
    const auto* reducer = dynamic_cast<const ReducerHook*>(hook.get());
    if (reducer != nullptr && reducer->lives()) all.push_back(reducer->reduction());
  }
  return all;
}

}  // namespace tw
