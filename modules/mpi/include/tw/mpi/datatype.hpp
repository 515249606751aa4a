// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::mpi {

/// Element types that MPI can carry and reduce.
enum class Datatype { uint8, int8, int16, int32, int64, float32, float64 };

/// Element-wise reductions.
enum class Op { sum, min, max };

}  // namespace tw::mpi
