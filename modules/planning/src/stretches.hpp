// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "operator_order.hpp"

namespace tw::pipeline {

/// What a stage of consecutive blocks has to do and to hold, before rows and replicas are known.
struct Stretch {
  Affine forward, backward, saved;
  /// The most that a backward pass holds at a time: what earlier operators have saved, and an operator's own and workspace. No less; a little more
  /// where that is at one operator for few rows, and at another for many.
  Affine peak;
  Affine kept;                 ///< bytes over the border before each of its blocks: what selective recomputation keeps
  double parameter_bytes = 0;  ///< each once
  double tied_bytes = 0;       ///< of these, what stages before or after it have too
};

/// All stretches of consecutive blocks; quadratic in the blocks, linear in the operators.
class Stretches {
 public:
  /// @param begins of the blocks, and the end of the last one. @param order borrowed
  Stretches(const OperatorOrder& order, std::vector<int> begins);

  const OperatorOrder& order() const noexcept { return *order_; }
  int blocks() const noexcept { return static_cast<int>(begins_.size()) - 1; }
  int begin_of(int block) const { return begins_[static_cast<size_t>(block)]; }
  const Affine& border(int block) const { return order_->border(begin_of(block)); }
  /// Blocks [begin, end), not empty.
  const Stretch& at(int begin, int end) const { return table_[index(begin, end)]; }
  /// The most that a backward pass holds which computes the blocks again one by one, from the last one on: a block's own peak, and the inputs of it
  /// and of those before it.
  double segments_peak(int begin, int end, double rows) const;
  /// Constants of the stretch, too.
  std::vector<int> operators_of(int begin, int end) const;

 private:
  size_t index(int begin, int end) const { return static_cast<size_t>(begin) * static_cast<size_t>(blocks()) + static_cast<size_t>(end - 1); }

  const OperatorOrder* order_;
  std::vector<int> begins_;
  std::vector<Stretch> table_;
};

}  // namespace tw::pipeline
