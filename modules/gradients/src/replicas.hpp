// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/gradients/reducer.hpp>
#include <vector>

#include "bucket_buffers.hpp"

namespace tw {

/// The reduced gradients of replicated parameters, which all their holders have.
class Replicas {
 public:
  /// Borrows its arguments; `buffers` must keep their shares.
  Replicas(const Communicator& comm, const BucketPlan& plan, const std::vector<TensorSpec>& specs, const ReducerOptions& options,
           const BucketBuffers& buffers);

  /// Copies the first holder's values to all, since each holder's reduction adds in its own order. Collective over the holders.
  void make_equal() const;

 private:
  struct Held {
    const Communicator& holders;
    std::vector<at::Tensor> gradients;  // this rank's gradients, or its pieces of them
  };
  std::vector<Held> all_;
};

}  // namespace tw
