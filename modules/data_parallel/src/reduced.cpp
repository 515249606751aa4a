// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/zeros.h>

#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/data_parallel/reduced.hpp>

namespace tw {

at::Tensor reduced(const Communicator& comm, const at::Tensor& loss, Reduction reduction, int64_t samples) {
  expect_chosen(reduction);
  TW_EXPECTS(loss.numel() == 1, "a loss must have 1 element, got ", loss.numel());
  TW_EXPECTS(samples >= 0, "a rank cannot have ", samples, " samples");
  const bool weighted = reduction == Reduction::sample_weighted;
  const double weight = weighted ? static_cast<double>(samples) : 1;
  const at::Tensor sums = at::zeros({2}, at::TensorOptions().dtype(at::kDouble));  // of losses, of weights
  auto* const values = sums.mutable_data_ptr<double>();
  values[0] = weight > 0 ? weight * loss.item<double>() : 0;
  values[1] = weight;
  allreduce(comm, sums, ReduceOp::sum);
  if (reduction != Reduction::sum && values[1] > 0) values[0] /= values[1];
  return sums[0].clone();
}

}  // namespace tw
