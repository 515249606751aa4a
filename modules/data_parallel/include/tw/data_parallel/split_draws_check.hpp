// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <set>
#include <tw/mpi/communicator.hpp>

namespace tw {

class SplitDraws;

/// Finds operators that draw the same random numbers for different slices of a tensor, such as a torch::nn::Dropout after a column-parallel layer:
/// the dropout's mask drops the same features of every slice.
class SplitDrawsCheck {
 public:
  /// Calls `pass`. In the first call with each value of `modes`, it also compares the draws of all ranks after the pass, by one all-gather.
  /// Collective over `ranks`.
  /// @param ranks the ranks that hold the slices of split layers. They must make the same pass, over at least one row of input
  /// @param modes a number that identifies the modes (training or evaluation) of the model's layers; the same on all ranks
  /// @throws ContractError on all ranks, naming the operator, if it drew the same numbers for different slices
  void run(const Communicator& ranks, int64_t modes, const std::function<void()>& pass);
  /// Calls `call`, whose draws are not the model's. For callbacks in a pass. Local.
  void leave_out(const std::function<void()>& call) const;

 private:
  std::set<int64_t> checked_;    // modes
  SplitDraws* watch_ = nullptr;  // set during a pass whose draws are compared
};

}  // namespace tw
