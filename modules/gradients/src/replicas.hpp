// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/gradients/reducer.hpp>
#include <vector>

#include "bucket_buffers.hpp"

namespace tw {

/// The reduced gradients of replicated parameters, which all holders have.
class Replicas {
 public:
  /// All are borrowed; `buffers` keep their shares.
  Replicas(const Communicator& comm, const BucketPlan& plan, const std::vector<TensorSpec>& specs, const ReducerOptions& options,
           const BucketBuffers& buffers);

  /// Gives the first holder's to all: each holder's reduction adds in an order of its own. Collective over the holders.
  void make_equal() const;

 private:
  struct Held {
    const Communicator& holders;
    std::vector<at::Tensor> gradients;  // this rank's, or its pieces of them
  };
  std::vector<Held> all_;
};

}  // namespace tw
