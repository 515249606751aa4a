// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace tw {

/// Names of the parameters of `module` that belong to embeddings with sparse gradients, for ReducerOptions::sparse.
std::vector<std::string> sparse_gradients_of(const torch::nn::Module& module);

}  // namespace tw
