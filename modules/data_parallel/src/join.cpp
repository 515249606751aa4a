// SPDX-License-Identifier: Apache-2.0
#include <tw/data_parallel/join.hpp>

#include <ATen/ops/from_blob.h>

#include <tw/comm/collectives.hpp>

namespace tw {

int64_t join(const Communicator& comm, const std::function<bool()>& next, const std::function<void(bool has_input)>& step) {
  int64_t ranks_with_input = 0;
  const at::Tensor message = at::from_blob(&ranks_with_input, {1}, at::TensorOptions().dtype(at::kLong));
  bool has_input = true;
  for (int64_t steps = 0;; ++steps) {
    has_input = has_input && next();
    ranks_with_input = has_input ? 1 : 0;
    allreduce(comm, message, ReduceOp::sum);
    if (ranks_with_input == 0) return steps;
    step(has_input);
  }
}

}  // namespace tw
