// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// Detects replicas that were updated differently, e.g. by an optimizer whose number of passes depends on one rank's loss. The bits of a few
/// parameter elements, different ones in each pass, travel as the pass's fingerprint. Parameters on devices are skipped.
class ReplicaSample {
 public:
  /// @param parameters borrowed
  explicit ReplicaSample(const std::vector<NamedTensor>& parameters) : parameters_(parameters) {}

  /// Begins a pass. @return its fingerprint, equal on all ranks if their parameters are
  uint64_t take();
  /// Begins again after `passes` passes, the same number on all ranks.
  void begin_after(int64_t passes) noexcept { passes_ = passes; }
  /// Call when the ranks' fingerprints of this pass differ. Collective.
  /// @throws ContractError on every rank, naming parameter and rank, if an element differs by more than the square root of its dtype's precision
  /// (0.1 for half precision), relative to the parameter's largest element. Rounding on different processors stays below that.
  void compare(const Communicator& comm) const;

 private:
  struct Element {
    size_t parameter;
    int64_t index;  // in memory
  };
  Element element(int64_t number) const;

  const std::vector<NamedTensor>& parameters_;
  int64_t passes_ = 0;
};

}  // namespace tw
