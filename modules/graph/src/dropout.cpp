// SPDX-License-Identifier: Apache-2.0
#include "dropout.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>

#include <cmath>
#include <tw/base/random.hpp>

namespace tw::graph {

at::Tensor dropout(const at::Tensor& input, double p, uint64_t seed, int64_t first_row) {
  if (p == 0 || input.numel() == 0) return input;
  const at::Tensor factors = at::empty(input.sizes(), at::TensorOptions().dtype(at::kFloat));
  const auto threshold = static_cast<uint64_t>(std::ldexp(p, 32));  // a number below it: zero
  const auto kept = static_cast<float>(1 / (1 - p));
  const int64_t rows = input.dim() > 0 ? input.size(0) : 1;
  const int64_t columns = input.numel() / rows;
  auto* out = factors.mutable_data_ptr<float>();
  for (int64_t row = 0; row < rows; ++row) {
    CounterRng numbers(seed, static_cast<uint64_t>(first_row + row));
    for (int64_t i = 0; i < columns; ++i) *out++ = numbers() < threshold ? 0.0F : kept;
  }
  return at::mul(input, factors.to(input.options()));
}

}  // namespace tw::graph
