// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/data/tensor_dataset.hpp>

namespace tw {

/// Points uniform in [-3, 3]^2, each labelled with the level of MATLAB's function "peaks" there: five classes of about equal size. float32 inputs [n,
/// 2], int64 targets [n]. Equal arguments return equal data.
/// Ref: Haber & Ruthotto 2017, Inverse Problems 34:1, section 5.
TensorDataset make_peaks(int64_t n, uint64_t seed);

}  // namespace tw
