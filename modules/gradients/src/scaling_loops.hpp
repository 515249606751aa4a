// SPDX-License-Identifier: Apache-2.0
// Loops over plain memory, compiled for each generation of processors.
#pragma once
#include <cstdint>

namespace tw::scaling_loops {

/// to[i] = factor * from[i] for i < n. `to` is `from`, or does not overlap it.
void multiply(const float* from, float factor, float* to, int64_t n);
void multiply(const double* from, double factor, double* to, int64_t n);

/// values[i] *= factor for i < n. @return whether all products are finite
bool multiply_finite(float* values, float factor, int64_t n);
bool multiply_finite(double* values, double factor, int64_t n);

/// Whether none of n numbers of 16 bits is infinite or NaN. @param exponent the mask of their exponent bits
bool halves_finite(const uint16_t* values, uint16_t exponent, int64_t n);

}  // namespace tw::scaling_loops
