// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace tw {

/// The names of parameters of `module` that belong to embeddings with sparse gradients: what ReducerOptions::sparse wants to know.
std::vector<std::string> sparse_gradients_of(const torch::nn::Module& module);

}  // namespace tw
