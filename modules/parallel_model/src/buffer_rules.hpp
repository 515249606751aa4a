// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

class KnownMemory;

/// Makes buffers that an update changed equal on all ranks with different samples: floating-point buffers become the mean weighted by rows, others
/// the maximum.
class BufferRules {
 public:
  explicit BufferRules(const std::vector<NamedTensor>& buffers);

  /// Call before an update. Local.
  void remember();
  /// Undoes changes since remember(). Local.
  void restore() const;
  /// By buffer: 1 if it has changed since remember(). Local.
  std::vector<double> changed() const;
  /// Adds the buffers, and the copies of remember(). Local.
  void account(KnownMemory& known) const;
  /// Call after the update. Collective. @param changed by buffer: positive if it changed on any rank. @param share this rank's share of all rows
  void apply(const Communicator& comm, const std::vector<double>& changed, double share) const;

 private:
  std::vector<at::Tensor> buffers_;  // the tensors of the module, not detached ones: loading gives them different memory
  std::vector<at::Tensor> before_;
};

}  // namespace tw
