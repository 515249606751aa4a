// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw::train {

/// `tensors`, one after the other, make a flat tensor. Splits a run of its elements into the parts of the model that lie there. Pure.
/// @param run contiguous and one-dimensional; the results are views of it, named `run.name`, a slash and the name of the parameter
std::vector<NamedShard> places_in_model(const NamedShard& run, const std::vector<OptimizedTensor>& tensors);

}  // namespace tw::train
