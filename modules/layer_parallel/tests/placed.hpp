// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "mpi_test.hpp"

#include <tw/layer_parallel/block.hpp>
#include <vector>

namespace tw::testing {

/// Blocks whose layers are made in float64, on the device of the test's tensors.
inline std::vector<layer_parallel::Block> placed(std::vector<layer_parallel::Block> blocks) {
  for (layer_parallel::Block& block : blocks) {
    block.make = [make = block.make](int64_t index) {
      layer_parallel::Layer layer = make(index);
      layer.module->to(torch::kDouble);
      place_module(layer.module);
      return layer;
    };
  }
  return blocks;
}

}  // namespace tw::testing
