// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/data/tensor_dataset.hpp>

namespace tw {

/// Generates the adding problem: long sequences of numbers from 0 to 1, with one number in each half marked. The target is the sum of the two marked
/// numbers. A model that always predicts 1 has a mean squared error of 1/6; a lower error requires memory over the whole sequence. Inputs are float32
/// [n, steps, 2]: each step is a number and its mark (1 or 0). Targets are float32 [n, 1]. Equal arguments return equal data.
/// @param n at least 1; @param steps at least 2.
/// Ref: Hochreiter & Schmidhuber 1997, Neural Computation 9:8, experiment 4; this form is from Arjovsky et al. 2016, arXiv 1511.06464.
TensorDataset make_adding_problem(int64_t n, int64_t steps, uint64_t seed);

}  // namespace tw
