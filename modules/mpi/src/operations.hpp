// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>

#include <map>
#include <tw/base/element.hpp>
#include <utility>

namespace tw::mpi {

/// MPI's operations, and replacements where MPI leaves the result open: minima and maxima of NaN, and integers that overflow. (Open MPI's results
/// depend on size and alignment: its vector code drops NaN, and saturates 8- and 16-bit integers.)
class Operations {
 public:
  /// Needs a running MPI.
  Operations();
  MPI_Op find(ReduceOp op, ElementType type) const;
  /// Frees our own operations, while MPI runs. They leak if this is not called.
  void free();

 private:
  std::map<std::pair<ReduceOp, ElementType>, MPI_Op> own_;
};

}  // namespace tw::mpi
