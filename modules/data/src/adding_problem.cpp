// SPDX-License-Identifier: Apache-2.0
#include <tw/data/adding_problem.hpp>

#include <ATen/ops/zeros.h>

#include <tw/base/contract.hpp>
#include <tw/base/random.hpp>

namespace tw {

TensorDataset make_adding_problem(int64_t n, int64_t steps, uint64_t seed) {
  TW_EXPECTS(n >= 1 && steps >= 2, "the adding problem needs at least 1 sequence of at least 2 steps, got ", n, " sequences of length ", steps);
  const at::Tensor inputs = at::zeros({n, steps, 2}, at::kFloat);
  const at::Tensor targets = at::zeros({n, 1}, at::kFloat);
  auto* const values = inputs.mutable_data_ptr<float>();
  for (int64_t i = 0; i < n; ++i) {
    CounterRng random(seed, static_cast<uint64_t>(i));
    float* const sequence = values + i * steps * 2;
    for (int64_t t = 0; t < steps; ++t) sequence[2 * t] = static_cast<float>(random() / 4294967296.0);
    const int64_t half = steps / 2;
    for (const int64_t marked : {int64_t{random.below(static_cast<uint32_t>(half))}, half + random.below(static_cast<uint32_t>(steps - half))}) {
      sequence[2 * marked + 1] = 1;
      targets.mutable_data_ptr<float>()[i] += sequence[2 * marked];
    }
  }
  return {inputs, targets};
}

}  // namespace tw
