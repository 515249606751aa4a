// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/data_parallel/fwd.hpp>
#include <vector>

namespace tw {

/// The names of parameters of `module` that belong to embeddings with sparse gradients: what ReducerOptions::sparse wants to know.
std::vector<std::string> sparse_gradients_of(const torch::nn::Module& module);

}  // namespace tw
