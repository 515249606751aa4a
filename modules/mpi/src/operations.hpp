// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

#include <map>
#include <tw/base/element.hpp>
#include <utility>

namespace tw::mpi {

/// MPI's operations, and operations of our own where MPI leaves the result open: minima and maxima of NaN, and integers that overflow. (Open MPI's
/// depend on size and place: its vector instructions drop NaN, and saturate integers of 8 and 16 bits.)
class Operations {
 public:
  /// MPI runs.
  Operations();
  MPI_Op find(ReduceOp op, ElementType type) const;
  /// Frees our own, while MPI runs. They are lost where this is not called.
  void free();

 private:
  std::map<std::pair<ReduceOp, ElementType>, MPI_Op> own_;
};

}  // namespace tw::mpi
