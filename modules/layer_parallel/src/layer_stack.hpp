// SPDX-License-Identifier: Apache-2.0
// This rank's layers of a block. Tensors of one name lie in one stack, [layers, ...], and each layer's tensors are slices of the stacks.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <tw/autograd/autocast.hpp>
#include <tw/gradients/model_parts.hpp>
#include <tw/gradients/module_modes.hpp>
#include <tw/layer_parallel/block.hpp>
#include <vector>

#include "linearised.hpp"

namespace tw::layer_parallel {

/// The tensors of one name.
struct StackedTensor {
  std::string name;                              ///< name in its layer, such as "weight"
  at::Tensor stack;                              ///< [layers, ...]
  std::vector<at::Tensor> slices;                ///< tensors of the layers themselves
  std::optional<SlicedParameter> of_split = {};  ///< of a split layer: which part of each layer's tensor this rank holds
};

class BatchingStepper;

class LayerStack {
 public:
  /// @param range this rank's layers of the block. Layer i's initial values depend only on (seed, stream, i).
  LayerStack(const Block& block, LevelPlan::Range range, uint64_t seed, uint64_t stream);
  ~LayerStack();
  LayerStack(const LayerStack&) = delete;
  LayerStack& operator=(const LayerStack&) = delete;

  LevelPlan::Range range() const noexcept { return range_; }
  const std::vector<StackedTensor>& parameters() const noexcept { return parameters_; }
  const std::vector<StackedTensor>& buffers() const noexcept { return buffers_; }
  /// Whether layers contain split layers, whose passes communicate.
  bool has_split_layers() const;
  std::vector<StackedTensor>& parameters() noexcept { return parameters_; }
  std::vector<StackedTensor>& buffers() noexcept { return buffers_; }
  /// For messages, such as "layer 3 of block 0".
  std::string name_of(int64_t index) const;
  const Layer& layer(int64_t index) const { return layers_.at(static_cast<size_t>(index - range_.begin)); }
  /// The layer's parameters, slices of the stacks.
  std::vector<at::Tensor> parameters_of(int64_t index) const;
  /// Parameters of several layers: views of the stacks, [count, ...], without gradient.
  const std::vector<at::Tensor>& parameters_of(const Rows& layers) const;

  void train(bool on);
  bool is_training() const noexcept { return training_; }
  /// The layers and their submodules.
  Modules modules() const;
  /// Modes of the stack and of modules().
  struct Modes {
    bool training;
    ModuleModes of_parts;
  };
  Modes modes() const { return {training_, ModuleModes(modules())}; }
  void set(const Modes& modes);
  /// Makes the layers' tensors slices of the stacks again if they were replaced, as Module::to() does; a stack whose values are gathered when an
  /// operator uses it is gathered here. All layers are traced again.
  void begin_pass();
  uint64_t pass() const noexcept { return pass_; }

  /// The fastest valid stepper for steps of length `dt` from states that are, stacked, like `states`; there is one for each shape and length. The
  /// reference is valid until the next call.
  Stepper& stepper(const State& states, const State& extras, double dt);
  /// Why layers did not run as one operation in this pass; empty: they did, or none ran.
  std::string unbatchable() const;

 private:
  /// The conditions for which a stepper was made.
  struct Case {
    bool training;
    double dt;
    AutocastState autocast;
    std::vector<std::pair<std::vector<int64_t>, c10::ScalarType>> tensors;  // shapes and types of state and extras, without the layer dimension

    bool fits(bool training, double dt, const State& states, const State& extras) const;
  };

  BlockOptions options_;
  LevelPlan::Range range_;
  uint64_t block_;
  std::vector<Layer> layers_;
  std::vector<StackedTensor> parameters_;
  std::vector<StackedTensor> buffers_;
  bool training_ = true;
  mutable std::map<std::tuple<int64_t, int64_t, int64_t>, std::vector<at::Tensor>> views_;  // views of the stacks, by rows
  std::vector<std::pair<Case, std::unique_ptr<BatchingStepper>>> steppers_;
  uint64_t pass_ = 0;
};

}  // namespace tw::layer_parallel
