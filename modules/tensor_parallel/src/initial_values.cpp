// SPDX-License-Identifier: Apache-2.0
#include "initial_values.hpp"

#include <torch/nn/module.h>

#include <tw/base/concat.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/tensor/content_hash.hpp>

namespace tw::tensor_parallel {

void expect_same_initial_values(const Communicator& comm, const std::string& layer, const torch::nn::Module& whole) {
  std::vector<std::string> lines;
  for (const auto& parameter : whole.named_parameters()) {
    lines.push_back(concat(parameter.key(), " with hash ", content_hash(parameter.value())));
  }
  expect_same_on_all_ranks(comm, concat("the initial values of ", layer, " (call torch::manual_seed() with the same seed on all ranks)"), lines);
}

}  // namespace tw::tensor_parallel
