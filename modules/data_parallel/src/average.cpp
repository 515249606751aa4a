// SPDX-License-Identifier: Apache-2.0
#include "flat_buckets.hpp"
#include "module_tensors.hpp"

#include <tw/base/concat.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/data_parallel/average.hpp>
#include <tw/tensor/content_hash.hpp>

namespace tw {
namespace {

// e.g. "bn.num_batches_tracked int64 [], 10"
std::string line_with_value(const NamedTensor& tensor) {
  const std::string value = tensor.tensor.numel() == 1 ? concat(tensor.tensor.item<int64_t>()) : concat("content ", content_hash(tensor.tensor));
  return tensor.spec().describe() + ", " + value;
}

}  // namespace

void average(const Communicator& comm, const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> averaged;
  std::vector<std::string> lines;
  for (const NamedTensor& tensor : tensors) {
    const bool has_mean = tensor.tensor.is_floating_point() || tensor.tensor.is_complex();
    lines.push_back(has_mean ? tensor.spec().describe() : line_with_value(tensor));
    if (has_mean) averaged.push_back(tensor);
  }
  expect_same_on_all_ranks(comm, "the tensors to be averaged, and the values of tensors without a mean,", lines);
  if (comm.size() == 1) return;
  FlatBuckets(specs_of(averaged), common_device_of(averaged))
      .exchange([&](size_t id, const at::Tensor& place) { place.copy_(averaged[id].tensor); },
                [&](const at::Tensor& bucket) { allreduce(comm, bucket, ReduceOp::average); },
                [&](size_t id, const at::Tensor& place) { averaged[id].tensor.copy_(place); });
}

void average(const Communicator& comm, const torch::nn::Module& module) { average(comm, tensors_of(module)); }

}  // namespace tw
