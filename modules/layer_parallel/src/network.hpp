// SPDX-License-Identifier: Apache-2.0
// What is behind LayerParallel.
#pragma once
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <vector>

#include "ode_block.hpp"
#include "pass_communicators.hpp"

namespace tw::layer_parallel {

/// Which parts of a layer are in training mode.
struct LayerModes {
  size_t block = 0;
  size_t layer = 0;
  std::vector<uint8_t> is_training;
  static constexpr auto fields = std::tuple(&LayerModes::block, &LayerModes::layer, &LayerModes::is_training);
};

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

  /// Of each block's random layers, the next training pass.
  int64_t calls() const;
  void set_calls(int64_t number);
  void set_replica(int64_t replica);

  /// The layers of ODE blocks and their parts.
  Modules ode_modules() const;
  /// By layer that this rank has.
  std::vector<LayerModes> modes_of_layers() const;

  PassCommunicators comms_;
  const Communicator& comm_ = comms_.lasting();
  std::vector<Block> blocks_;
  LayerParallelOptions options_;
  std::vector<Part> parts_;
  Rank last_{0};  // which has the end of the last part
  int64_t replica_ = 0;
  bool training_ = true;
  TrainingSwitch switch_;
  /// Of this rank's backward passes that have begun, the ODE blocks to which they have not come yet. Other ranks wait there for this one.
  int64_t blocks_to_come_ = 0;
  PhaseObserver observer_;
  at::Tensor anchor_;  // gives every rank's output a gradient; lies where this rank's parameters do
  Seconds forward_time_{0};
  Seconds backward_time_{0};

 private:
  /// Of the first parameter; none on a rank without parameters.
  std::optional<c10::Device> device() const;
  /// What ranks must agree on before a pass.
  std::vector<std::string> checked(const State& input, const State& extras) const;
  /// Collective. @return whether backward() shall give all ranks the gradient of the input
  bool begin_pass(const State& input, const State& extras);
  /// @param anchor see through(); rank 0's depends on the input
  State enter(const State& input, bool gradient_for_all, at::Tensor& anchor);
  State through_plain(const Part& part, size_t index, const State& state, const State& extras, int64_t call) const;
  /// @param anchor what the pass depends on beside the state
  State through(OdeBlock& block, const State& state, Rank here, const State& extras, const at::Tensor& anchor);
  /// @param blocks the nodes of ODE blocks; none where nothing is recorded
  State hand_out(const State& state, const std::vector<torch::autograd::Node*>& blocks);
  /// Where a plain layer, or what a user has hooked on it, threw in this rank's last backward pass, other ranks may still wait in it: they are
  /// released.
  void release_backward_passes();
};

}  // namespace tw::layer_parallel
