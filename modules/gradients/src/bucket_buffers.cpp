// SPDX-License-Identifier: Apache-2.0
#include "bucket_buffers.hpp"

#include <ATen/ops/zeros.h>

#include <tw/comm/shared_tensor.hpp>
#include <tw/tensor/device_memory.hpp>

namespace tw {

BucketBuffers::BucketBuffers(const Communicator& comm, const BucketPlan& plan, const std::vector<TensorSpec>& specs, const ReducerOptions& options)
    : comm_(comm), plan_(plan), specs_(specs), options_(options), buckets_(plan.buckets.size()), places_(specs.size()) {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (stays(i)) make(i);
    const Bucket& bucket = plan_.buckets[i];
    const int64_t slice = bucket.numel / comm_.size();
    if (options_.sharding == Sharding::slices) {
      buckets_[i].share =
          stays(i) ? values(i).narrow(0, comm_.rank() * slice, slice) : at::zeros({slice}, at::device(options_.device).dtype(bucket.dtype));
    } else if (bucket.owner == comm_.rank()) {
      buckets_[i].share = values(i);
    }
  }
}

void BucketBuffers::make(size_t bucket) {
  const auto& [dtype, numel, gradients, owner] = plan_.buckets[bucket];
  const bool shared = options_.shared_memory && !options_.release;
  FlatBuffer& buffer = buckets_[bucket].buffer;
  const at::TensorOptions options = at::device(options_.device).dtype(dtype);
  const auto describe = [&] {
    return concat("bucket ", bucket, " of ", buckets_.size(), " of gradients takes ", numel * static_cast<int64_t>(options.dtype().itemsize()),
                  " bytes on ", options_.device.str(),
                  "; with Sharding::slices or tensors and ReducerOptions::release a rank keeps its share of them alone");
  };
  buffer = in_device_memory([&] { return shared ? FlatBuffer(shared_tensor(comm_, {numel}, options)) : FlatBuffer(numel, options); }, describe);
  for (const int64_t id : gradients) {
    const auto index = static_cast<size_t>(id);
    places_[index] = buffer.view(plan_.placements[index].offset, specs_[index].shape);
  }
}

const at::Tensor& BucketBuffers::place_to_write(int64_t id) {
  const auto bucket = static_cast<size_t>(plan_.placements[static_cast<size_t>(id)].bucket);
  if (!values(bucket).defined()) make(bucket);
  return place(id);
}

void BucketBuffers::release(size_t bucket) {
  if (stays(bucket)) return;
  buckets_[bucket].buffer = FlatBuffer();
  for (const int64_t id : plan_.buckets[bucket].gradients) places_[static_cast<size_t>(id)] = at::Tensor();
}

bool BucketBuffers::stays(size_t bucket) const { return !options_.release || plan_.buckets[bucket].owner == comm_.rank(); }

}  // namespace tw
