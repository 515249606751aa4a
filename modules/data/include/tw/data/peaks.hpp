// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/data/tensor_dataset.hpp>

namespace tw {

/// Points of the plane, uniform in [-3, 3]^2, and the level at which MATLAB's function "peaks" lies there: five classes of about equal size.
/// float32 inputs [n, 2], int64 targets [n]. The same for equal arguments.
/// Ref: Haber & Ruthotto 2017, Inverse Problems 34:1, section 5.
TensorDataset make_peaks(int64_t n, uint64_t seed);

}  // namespace tw
