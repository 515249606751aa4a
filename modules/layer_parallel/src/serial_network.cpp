// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <tw/autograd/generator.hpp>
#include <tw/base/concat.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>

#include "named_layer.hpp"
#include "random_layer_seed.hpp"

namespace tw::layer_parallel {

SerialNetwork::SerialNetwork(std::vector<Block> blocks, const LayerParallelOptions& options) : blocks_(std::move(blocks)), options_(options) {
  GeneratorGuard generator;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto names = register_module(std::to_string(i), std::make_shared<torch::nn::Module>());
    std::vector<Layer>& layers = layers_.emplace_back();
    for (int64_t k = 0; k < blocks_[i].count; ++k) {
      generator.seed(options_.seed, static_cast<uint64_t>(i) << 32U | static_cast<uint64_t>(k));
      const std::string name = blocks_[i].is_ode() ? concat("layer ", k, " of block ", i) : concat("block ", i);
      layers.push_back(named_layer(blocks_[i].make(k), name, blocks_[i].is_ode()));
      names->register_module(std::to_string(k), layers.back().module);
    }
  }
}

at::Tensor SerialNetwork::forward(const at::Tensor& input) { return forward(State{input}).at(0); }

State SerialNetwork::forward(State state, const State& extras) {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    const double dt = options_.final_time / static_cast<double>(block.count);
    for (size_t k = 0; k < layers_[i].size(); ++k) {
      std::optional<GeneratorGuard> generator;
      if (is_training() && (block.options.random || !block.is_ode())) {
        generator.emplace();
        generator->seed(random_layer_seed(random_seed(options_.seed, replica_), i, calls_), k);
      }
      state = block.is_ode() ? step(layers_[i][k], block.options.integrator, state, extras, dt) : layers_[i][k].forward(state, extras, 0);
    }
  }
  if (is_training()) ++calls_;
  return state;
}

}  // namespace tw::layer_parallel
