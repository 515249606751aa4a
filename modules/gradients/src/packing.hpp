// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <c10/core/Stream.h>
#include <vector>

#include "side_stream.hpp"

namespace tw {

/// Gradients that lie on a device and wait to be copied into their buckets: those of a bucket go together, in a few launches. One launch each would
/// take the host longer than the copies take the device.
class Packing {
 public:
  Packing(const SideStream& side, size_t buckets) : side_(side), waiting_(buckets) {}

  /// `value` is complete in the current stream, and goes to `place`. They may be the same.
  void add(size_t bucket, const at::Tensor& value, const at::Tensor& place);
  /// Zeros go to `place`.
  void add_zeros(size_t bucket, const at::Tensor& place) { waiting_[bucket].zeros.push_back(place); }
  /// What was added since the last time, times `weight`, into the bucket, in the side stream. With weight 0 whatever it is becomes zero.
  void pack(size_t bucket, double weight);

 private:
  struct Waiting {
    std::vector<at::Tensor> values;
    std::vector<at::Tensor> places;  ///< of the values
    std::vector<at::Tensor> in_place;
    std::vector<at::Tensor> zeros;
    std::vector<c10::Stream> streams;  ///< in which values are complete
  };

  const SideStream& side_;
  std::vector<Waiting> waiting_;  // by bucket
};

}  // namespace tw
