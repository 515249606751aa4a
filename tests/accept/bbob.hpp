// SPDX-License-Identifier: Apache-2.0
// The 24 functions of the noiseless black-box optimisation benchmark (BBOB), on [-5, 5]^D.
// Ref: Hansen, Finck, Ros & Auger 2009, "Real-parameter black-box optimization benchmarking 2009: noiseless functions definitions"; Finck, Hansen,
// Ros & Auger 2010, the same, presentation of the functions. Instances use our own random numbers and therefore differ from those of COCO.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

namespace tw::testing {

struct BbobFunction {
  int number = 0;  ///< 1 to 24
  double minimum = 0;
  std::function<double(std::span<const double>)> value;
};

/// @param number 1 to 24. @param dimensions at least 2. @param instance determines the place of the minimum, rotations, and the minimum
BbobFunction bbob_function(int number, size_t dimensions, uint64_t instance);

}  // namespace tw::testing
