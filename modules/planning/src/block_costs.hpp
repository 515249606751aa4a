// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "operator_order.hpp"

namespace tw::pipeline {

/// Work and memory of a stage of consecutive blocks, before rows and replicas are known.
struct BlockCosts {
  Affine forward, backward, weights, saved;
  /// Peak memory of the backward pass: what earlier operators have saved, and one operator's own saved bytes and workspace. An upper bound: slightly
  /// too large if the peak is at one operator for few rows and at another for many.
  Affine peak;
  Affine waiting;              ///< bytes that the weights' half of the backward pass needs
  Affine kept;                 ///< bytes that cross the border before each block: what selective recomputation keeps
  double parameter_bytes = 0;  ///< each parameter counts once
  double tied_bytes = 0;       ///< the part of parameter_bytes that other stages have too
};

/// A parameter that several blocks use.
struct SharedParameter {
  double bytes = 0;
  std::vector<int> blocks = {};  ///< ascending
};

/// The costs of all ranges of consecutive blocks; quadratic in the number of blocks, linear in the number of operators.
class BlockCostTable {
 public:
  /// @param begins first positions of the blocks, and the end of the last one. @param order kept by reference
  BlockCostTable(const OperatorOrder& order, std::vector<int> begins);

  const OperatorOrder& order() const noexcept { return *order_; }
  int blocks() const noexcept { return static_cast<int>(begins_.size()) - 1; }
  int begin_of(int block) const { return begins_[static_cast<size_t>(block)]; }
  const Affine& border(int block) const { return order_->border(begin_of(block)); }
  /// Blocks [begin, end), not empty.
  const BlockCosts& at(int begin, int end) const { return table_[index(begin, end)]; }
  /// Peak memory of a backward pass that recomputes block by block, from the last one: a block's own peak, and the inputs of this block and of all
  /// earlier ones.
  double segments_peak(int begin, int end, double rows) const;
  const std::vector<SharedParameter>& shared_parameters() const noexcept { return shared_; }
  /// For a first or last stage [begin, end): the part of its parameter_bytes that other stages have too, if the first and the last stage are on one
  /// device. The search knows one of them only, and assumes that the other has as many blocks.
  double tied_bytes_with_joined_ends(int begin, int end) const;
  /// Operators of the range, including its constants.
  std::vector<int> operators_of(int begin, int end) const;

 private:
  size_t index(int begin, int end) const { return static_cast<size_t>(begin) * static_cast<size_t>(blocks()) + static_cast<size_t>(end - 1); }

  const OperatorOrder* order_;
  std::vector<int> begins_;
  std::vector<BlockCosts> table_;
  std::vector<SharedParameter> shared_;
};

}  // namespace tw::pipeline
