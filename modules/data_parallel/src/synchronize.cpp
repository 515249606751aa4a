// SPDX-License-Identifier: Apache-2.0
#include "module_tensors.hpp"

#include <ATen/core/grad_mode.h>

#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/gradients/bucket_plan.hpp>
#include <tw/tensor/flat_buffer.hpp>

namespace tw {

void synchronize(const Communicator& comm, const std::vector<NamedTensor>& tensors, Rank root) {
  const std::vector<TensorSpec> specs = specs_of(tensors);
  std::vector<std::string> lines;
  for (const TensorSpec& spec : specs) lines.push_back(spec.describe());
  expect_same_on_all_ranks(comm, "the tensors to be synchronised", lines);
  if (specs.empty() || comm.size() == 1) return;

  const at::NoGradGuard no_grad;
  const BucketPlan plan = plan_buckets(specs);
  for (const Bucket& bucket : plan.buckets) {
    const FlatBuffer flat(bucket.numel, bucket.dtype);
    const auto place_of = [&](int64_t id) {
      return flat.view(plan.placements[static_cast<size_t>(id)].offset, specs[static_cast<size_t>(id)].shape);
    };
    if (comm.rank() == root) {
      for (const int64_t id : bucket.gradients) place_of(id).copy_(tensors[static_cast<size_t>(id)].tensor);
    }
    broadcast(comm, flat.storage(), root);
    if (comm.rank() != root) {
      for (const int64_t id : bucket.gradients) at::Tensor(tensors[static_cast<size_t>(id)].tensor).copy_(place_of(id));
    }
  }
}

void synchronize(const Communicator& comm, const torch::nn::Module& module, Rank root) { synchronize(comm, tensors_of(module), root); }

}  // namespace tw
