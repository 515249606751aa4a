// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <c10/core/Stream.h>
#include <vector>

#include "side_stream.hpp"

namespace tw {

/// Gradients on a device that wait to be copied into their buckets. Those of a bucket are copied in a few launches; with one launch each, the host
/// would take longer than the device.
class Packing {
 public:
  Packing(const SideStream& side, size_t buckets) : side_(side), waiting_(buckets) {}

  /// Queues a copy of `value`, complete in the current stream, to `place`. They may be the same.
  void add(size_t bucket, const at::Tensor& value, const at::Tensor& place);
  /// Queues zeros for `place`.
  void add_zeros(size_t bucket, const at::Tensor& place) { waiting_[bucket].zeros.push_back(place); }
  /// Copies what was queued, times `weight`, into the bucket, in the side stream. Weight 0 writes zeros whatever the values are.
  void pack(size_t bucket, double weight);

 private:
  struct Waiting {
    std::vector<at::Tensor> values;
    std::vector<at::Tensor> places;  ///< destinations of the values
    std::vector<at::Tensor> in_place;
    std::vector<at::Tensor> zeros;
    std::vector<c10::Stream> streams;  ///< streams in which values are complete
  };

  const SideStream& side_;
  std::vector<Waiting> waiting_;  // by bucket
};

}  // namespace tw
