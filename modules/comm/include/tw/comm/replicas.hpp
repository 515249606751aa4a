// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw {

/// How far the ranks' copies of a tensor agree.
struct ReplicaReport {
  bool identical = false;         ///< whether all copies are equal bit for bit, by a 64-bit hash
  bool similar = false;           ///< whether both deviations below are at most 1e-7 (TorchMPI's test)
  std::vector<int> differing;     ///< ranks whose content differs from rank 0's
  double mean_deviation = 0;      ///< greatest relative deviation of a rank's mean of |x| from the average of these means
  double variance_deviation = 0;  ///< the same for the variances of |x|

  /// One line, such as "identical on 4 ranks" or "ranks 2, 3 differ from rank 0: ...".
  std::string describe() const;
  int ranks = 1;
};

/// Compares the ranks' copies of `tensor`: their content, and mean and variance of |x| in float64. Returns the same report on all ranks. Collective.
/// @param tensor same shape and dtype on all ranks.
ReplicaReport compare_replicas(const Communicator& comm, const at::Tensor& tensor);

}  // namespace tw
