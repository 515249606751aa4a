// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/data/tensor_dataset.hpp>

namespace tw {

/// Generates points that are uniform in [-3, 3]^2. The label of a point is the range, one of five, in which the value of MATLAB's function "peaks" at
/// the point lies. The five classes are of about equal size. Inputs are float32 [n, 2], targets int64 [n]. Equal arguments return equal data.
/// @param n at least 5.
/// Ref: Haber & Ruthotto 2017, Inverse Problems 34:1, section 5.
TensorDataset make_peaks(int64_t n, uint64_t seed);

}  // namespace tw
