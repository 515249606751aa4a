// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw {

/// How equal the copies of a tensor on the ranks are.
struct ReplicaReport {
  bool identical = false;         ///< bit by bit, by a hash of 64 bits
  bool similar = false;           ///< the mean and the variance of |x| are those of all ranks, to 1e-7 relative (TorchMPI's test)
  std::vector<int> differing;     ///< ranks whose content is not that of rank 0
  double mean_deviation = 0;      ///< greatest relative deviation of a rank's mean of |x| from the mean over ranks
  double variance_deviation = 0;  ///< the same for its variance

  /// One line, such as "identical on 4 ranks" or "ranks 2, 3 differ from rank 0: ...".
  std::string describe() const;
  int ranks = 1;
};

/// Compares the copies of `tensor` on all ranks: content, and mean and variance of |x|, computed in float64. The same report on all ranks.
/// Collective.
/// @param tensor of the same shape and dtype on all ranks.
ReplicaReport compare_replicas(const Communicator& comm, const at::Tensor& tensor);

}  // namespace tw
