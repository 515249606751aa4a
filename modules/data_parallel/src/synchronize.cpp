// SPDX-License-Identifier: Apache-2.0
#include "flat_buckets.hpp"
#include "module_tensors.hpp"

#include <tw/autograd/operator_watch.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/data_parallel/dropped_values.hpp>
#include <tw/data_parallel/synchronize.hpp>

namespace tw {

void synchronize(const Communicator& comm, const std::vector<NamedTensor>& tensors, Rank root) {
  for (const auto& [name, tensor] : tensors) {
    TW_EXPECTS(!has_temporary_memory(tensor), name,
               " is or was sharded by a FullySharded, and only that object has its values and reduces its gradient");
  }
  const std::vector<TensorSpec> specs = specs_of(tensors);
  std::vector<std::string> lines = lines_of(specs);
  for (size_t i = 0; i < lines.size(); ++i) lines[i] += has_values(tensors[i].tensor) ? "" : ", without values";
  expect_same_on_all_ranks(comm, "the tensors to be synchronised", lines);
  expect_values(tensors);
  if (comm.size() == 1) return;
  const bool sends = comm.rank() == root;
  FlatBuckets(specs, common_device_of(tensors))
      .exchange(
          [&](size_t id, const at::Tensor& place) {
            if (sends) place.copy_(tensors[id].tensor);
          },
          [&](const at::Tensor& bucket) { broadcast(comm, bucket, root); },
          [&](size_t id, const at::Tensor& place) {
            if (!sends) tensors[id].tensor.copy_(place);
          });
}

void synchronize(const Communicator& comm, const std::vector<at::Tensor>& tensors, Rank root) { synchronize(comm, numbered(tensors), root); }

void synchronize(const Communicator& comm, const at::Tensor& tensor, Rank root) { synchronize(comm, std::vector<at::Tensor>{tensor}, root); }

void synchronize(const Communicator& comm, const torch::nn::Module& module, Rank root) { synchronize(comm, tensors_of(module), root); }

}  // namespace tw
