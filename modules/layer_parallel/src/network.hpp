// SPDX-License-Identifier: Apache-2.0
// The implementation of LayerParallel.
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
  /// One block on this rank: an ODE block, whose layers are spread over the ranks, or a plain layer on one rank.
  struct Part {
    size_t block;  // index in `blocks_`
    std::string name;
    std::unique_ptr<OdeBlock> ode;
    std::optional<Layer> layer;
  };

  Impl(const Communicator& comm, std::vector<Block> blocks, LayerParallelOptions options, BlockRange part);

  State forward(const State& input, const State& extras);

  /// Whether this rank has split layers.
  bool has_split_layers() const;
  /// Whether some of `blocks_` are elsewhere.
  bool is_part() const noexcept { return parts_.size() < blocks_.size(); }
  /// Number of the next training pass, from which random layers derive their seeds.
  int64_t calls() const;
  void set_calls(int64_t number);
  void set_replica(int64_t replica);

  /// The layers of ODE blocks and their submodules.
  Modules ode_modules() const;
  /// Modes of the submodules of this rank's layers, one entry per layer, for apply_modes().
  std::vector<LayerModes> modes_of_layers() const;

  PassCommunicators comms_;
  const Communicator& comm_ = comms_.lasting();
  std::vector<Block> blocks_;
  LayerParallelOptions options_;
  std::vector<Part> parts_;
  bool is_split_anywhere_ = false;  // whether any rank has split layers
  Rank last_{0};                    // rank that has the end of the last part
  int64_t calls_of_plain_ = 0;      // calls() without ODE blocks
  int64_t replica_ = 0;
  bool training_ = true;
  TrainingSwitch switch_;
  /// Number of ODE blocks that this rank's backward passes in progress have not reached yet. Other ranks wait for this one in these blocks.
  int64_t blocks_to_come_ = 0;
  PhaseObserver observer_;
  at::Tensor anchor_;  // makes every rank's output require a gradient; on the device of this rank's parameters
  Seconds forward_time_{0};
  Seconds backward_time_{0};

 private:
  /// Device of the first parameter; none on a rank without parameters.
  std::optional<c10::Device> device() const;
  /// Checks the inputs. @return lines that must be equal on all ranks before a pass
  std::vector<std::string> checked(const State& input, const State& extras) const;
  /// Collective. @return whether backward() computes the gradient of the input on all ranks
  bool begin_pass(const State& input, const State& extras);
  /// @param anchor see through(); rank 0's depends on the input
  State enter(const State& input, bool gradient_for_all, at::Tensor& anchor);
  State through_plain(const Part& part, const State& state, const State& extras, int64_t call) const;
  /// @param anchor makes the pass depend on more than the state, so that backward passes reach it
  State through(OdeBlock& block, const State& state, Rank here, const State& extras, const at::Tensor& anchor);
  /// @param blocks the nodes of ODE blocks; none where nothing is recorded
  State hand_out(const State& state, const std::vector<torch::autograd::Node*>& blocks);
  /// Ends the waits of other ranks in this rank's last backward pass: they still wait if a plain layer, or a user's hook on it, threw there.
  void release_backward_passes();
};

}  // namespace tw::layer_parallel
