// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/mpi/communicator.hpp>

namespace tw::train {

/// Who trains. All are borrowed.
struct Ranks {
  const Communicator& all;
  const Communicator& data;             ///< which hold the same part of the model, and take different samples
  const Communicator* parts = nullptr;  ///< which hold one model together, and take the same samples; null: each rank has a whole one
};

}  // namespace tw::train
