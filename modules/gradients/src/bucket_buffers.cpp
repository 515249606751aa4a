// SPDX-License-Identifier: Apache-2.0
#include "bucket_buffers.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <tw/comm/shared_tensor.hpp>
#include <tw/tensor/device_memory.hpp>

namespace tw {

BucketBuffers::BucketBuffers(const Communicator& comm, const BucketPlan& plan, const std::vector<TensorSpec>& specs, const ReducerOptions& options)
    : comm_(comm), plan_(plan), specs_(specs), options_(options), buckets_(plan.buckets.size()), places_(specs.size()) {
  if (options_.release && options_.shared_memory && options_.device.is_cpu()) {
    int64_t most = 0;
    for (const Bucket& bucket : plan_.buckets) most = std::max(most, bucket.numel * static_cast<int64_t>(c10::elementSize(bucket.dtype)));
    reused_buffer_ = shared_tensor(comm_, {most}, at::kByte);
  }
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
  FlatBuffer& buffer = buckets_[bucket].buffer;
  const auto describe = [&] {
    return concat("bucket ", bucket, " of ", buckets_.size(), " of gradients takes ", numel * static_cast<int64_t>(c10::elementSize(dtype)),
                  " bytes on ", options_.device.str(),
                  "; with Sharding::slices or tensors and ReducerOptions::release a rank keeps only its own share of them");
  };
  buffer = in_device_memory([&] { return FlatBuffer(memory_for(bucket)); }, describe);
  for (const int64_t id : gradients) {
    const auto index = static_cast<size_t>(id);
    places_[index] = buffer.view(plan_.placements[index].offset, specs_[index].shape);
  }
}

at::Tensor BucketBuffers::memory_for(size_t bucket) {
  const auto& [dtype, numel, gradients, owner] = plan_.buckets[bucket];
  const at::TensorOptions options = at::device(options_.device).dtype(dtype);
  if (!options_.release && options_.shared_memory) return shared_tensor(comm_, {numel}, options);
  if (stays(bucket) || !reused_buffer_.defined() || reused_by_) return FlatBuffer(numel, options).storage();
  reused_by_ = bucket;
  const at::Tensor memory = reused_buffer_.narrow(0, 0, numel * static_cast<int64_t>(c10::elementSize(dtype))).view(dtype);
  int64_t end_of_previous = 0;  // padding between gradients is summed too, so it must be finite
  for (const int64_t id : gradients) {
    const int64_t begin = plan_.placements[static_cast<size_t>(id)].offset;
    memory.narrow(0, end_of_previous, begin - end_of_previous).zero_();
    end_of_previous = begin + specs_[static_cast<size_t>(id)].numel();
  }
  memory.narrow(0, end_of_previous, numel - end_of_previous).zero_();
  return memory;
}

const at::Tensor& BucketBuffers::place_to_write(int64_t id) {
  const auto bucket = static_cast<size_t>(plan_.placements[static_cast<size_t>(id)].bucket);
  if (!values(bucket).defined()) make(bucket);
  return place(id);
}

void BucketBuffers::release(size_t bucket) {
  if (stays(bucket)) return;
  buckets_[bucket].buffer = FlatBuffer();
  if (reused_by_ == bucket) reused_by_.reset();
  for (const int64_t id : plan_.buckets[bucket].gradients) places_[static_cast<size_t>(id)] = at::Tensor();
}

bool BucketBuffers::stays(size_t bucket) const { return !options_.release || plan_.buckets[bucket].owner == comm_.rank(); }

}  // namespace tw
