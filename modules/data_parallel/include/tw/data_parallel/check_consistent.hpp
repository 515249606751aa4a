// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <tw/data_parallel/fwd.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// Whether all ranks hold the same tensors, and which tensors drifted apart.
struct ConsistencyReport {
  bool consistent = true;  ///< whether each tensor is bit for bit the same on all ranks, compared by 64-bit hashes
  int ranks = 1;
  int64_t tensors = 0;         ///< number of tensors compared
  int64_t drifted = 0;         ///< number of tensors that differ from rank 0's on some rank
  std::string tensor;          ///< name of the first tensor that differs; empty if none does
  std::vector<int> differing;  ///< ranks whose `tensor` differs from rank 0's
  /// Largest |x - x0| over all ranks and all elements of `tensor`, where x0 is rank 0's element; in float64. Infinite if x and x0 differ and one of
  /// them is not finite. 0 if they differ only in bits, such as the sign of a zero.
  double largest_difference = 0;

  /// One line, such as "12 tensors are identical on 4 ranks" or "conv1.weight differs from rank 0 on rank 2, by at most 0.25; 3 of 12 tensors
  /// differ".
  std::string describe() const;
};

/// Compares the content of `tensors` between all ranks, and returns the same report on all. Collective: each rank sends 16 bytes. If tensors differ,
/// it also sends 8 bytes per tensor, and rank 0 sends the first tensor that differs.
/// @throws ContractError on every rank, naming ranks and tensor, when names, shapes or dtypes differ.
ConsistencyReport check_consistent(const Communicator& comm, const std::vector<NamedTensor>& tensors);

/// The same for all parameters and buffers of `module`.
ConsistencyReport check_consistent(const Communicator& comm, const torch::nn::Module& module);

}  // namespace tw
