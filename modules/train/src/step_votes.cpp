// SPDX-License-Identifier: Apache-2.0
#include "step_votes.hpp"

#include <ATen/ops/zeros.h>

#include <tw/comm/collectives.hpp>
#include <utility>

namespace tw::train {

void StepVotes::collect() {
  collected_.non_finite |= sums_.parallel()->reducer().votes(static_cast<int>(Signal::non_finite)) > 0;
  collected_.overflow |= !sums_.gradients_finite();
  collected_.stop |= sums_.parallel()->reducer().votes(static_cast<int>(Signal::stop)) > 0;
}

Outcome StepVotes::outcome(double loss_scale) {
  const Outcome collected = std::exchange(collected_, {});
  const at::Tensor flags = at::zeros({3}, at::TensorOptions().dtype(at::kInt));
  auto* const values = flags.mutable_data_ptr<int32_t>();
  values[0] = collected.non_finite ? 1 : 0;
  values[1] = collected.overflow ? 1 : 0;
  values[2] = collected.stop ? 1 : 0;
  if (others_ != nullptr) allreduce(*others_, flags, ReduceOp::max);
  return outcome_of(values[0] != 0, values[1] == 0, values[2] != 0, loss_scale);
}

}  // namespace tw::train
