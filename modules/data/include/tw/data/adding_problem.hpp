// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/data/tensor_dataset.hpp>

namespace tw {

/// Long sequences of numbers from 0 to 1, of which one in each half is marked; wanted is the sum of the two. Whoever always answers 1 is wrong by
/// 1/6, squared, on average; whoever remembers over the whole length is right.
/// float32 inputs [n, steps, 2], a number and its mark (1, else 0); float32 targets [n, 1]. The same for equal arguments. @param steps at least 2
/// Ref: Hochreiter & Schmidhuber 1997, Neural Computation 9:8, experiment 4; in this form Arjovsky et al. 2016, arXiv 1511.06464.
TensorDataset make_adding_problem(int64_t n, int64_t steps, uint64_t seed);

}  // namespace tw
