// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// Finds replicas that were not updated alike, such as by an optimizer that decides by the loss of one rank how many passes it makes: the bits of a
/// few elements of the parameters, other ones in each pass, travel as a mark of the pass. Parameters on devices are not looked at.
class ReplicaSample {
 public:
  /// @param parameters borrowed
  explicit ReplicaSample(const std::vector<NamedTensor>& parameters) : parameters_(parameters) {}

  /// A pass begins. @return its mark, which is the same on all ranks where their parameters are
  uint64_t take();
  /// The ranks' marks of this pass differ. Collective.
  /// @throws ContractError on every rank, naming parameter and rank, where an element differs by more than the square root of its type's precision,
  /// in terms of the largest element. What rounding on other processors makes is less.
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
