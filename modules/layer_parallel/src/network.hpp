// SPDX-License-Identifier: Apache-2.0
// What is behind LayerParallel.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <vector>

#include "ode_block.hpp"

namespace tw::layer_parallel {

class LayerParallel::Impl {
 public:
  /// One block on this rank: an ODE block, of which every rank may have layers, or a plain layer, which one rank has.
  struct Part {
    std::string name;
    std::unique_ptr<OdeBlock> ode;
    std::optional<Layer> layer;
  };

  Impl(const Communicator& comm, std::vector<Block> blocks, LayerParallelOptions options);

  State forward(const State& input, const State& extras);

  const Communicator comm_;
  const Communicator reversed_;
  std::vector<Block> blocks_;
  LayerParallelOptions options_;
  std::vector<Part> parts_;
  Rank last_{0};  // which has the end of the last part
  PhaseObserver observer_;
  at::Tensor classes_;  // of the next pass; undefined: not said
  at::Tensor anchor_;   // gives every rank's output a gradient; lies where this rank's parameters do
  Seconds forward_time_{0};
  Seconds backward_time_{0};

 private:
  /// Of the first parameter; none on a rank without parameters.
  std::optional<c10::Device> device() const;
  at::Tensor place_of(const State& input) const;
  State through(OdeBlock& block, const State& state, Rank here, const State& extras, const at::Tensor& classes);
  State hand_out(const State& state);
};

}  // namespace tw::layer_parallel
