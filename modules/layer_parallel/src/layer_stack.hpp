// SPDX-License-Identifier: Apache-2.0
// The layers of a block that a rank has. Tensors of one name lie in one stack, [layers, ...], of which those of each layer are slices.
#pragma once
#include <map>
#include <string>
#include <tw/layer_parallel/block.hpp>
#include <vector>

namespace tw::layer_parallel {

class BatchedLayer;

/// One name's tensors.
struct StackedTensor {
  std::string name;                ///< in its layer, such as "weight"
  at::Tensor stack;                ///< [layers, ...]
  std::vector<at::Tensor> slices;  ///< the layers' own tensors
};

class LayerStack {
 public:
  /// @param range of the block's layers. Layer i's initial values depend on (seed, stream, i) alone.
  LayerStack(const Block& block, LevelPlan::Range range, uint64_t seed, uint64_t stream);

  LevelPlan::Range range() const noexcept { return range_; }
  const std::vector<StackedTensor>& parameters() const noexcept { return parameters_; }
  const std::vector<StackedTensor>& buffers() const noexcept { return buffers_; }
  std::vector<StackedTensor>& parameters() noexcept { return parameters_; }
  std::vector<StackedTensor>& buffers() noexcept { return buffers_; }
  const Layer& layer(int64_t index) const { return layers_.at(static_cast<size_t>(index - range_.begin)); }
  /// The layer's own parameters, slices of the stacks.
  std::vector<at::Tensor> parameters_of(int64_t index) const;
  /// Those of layers `first`, `first` + `spacing`, ...: views of the stacks, [count, ...], without gradient.
  std::vector<at::Tensor> parameters_of(int64_t first, int64_t count, int64_t spacing) const;

  void train(bool on);
  bool is_training() const noexcept { return training_; }
  /// Makes the layers' tensors slices of the stacks again, where those were replaced, as Module::to() does.
  void relink();

  /// Why the layers cannot run as one operation; empty: they can.
  const std::string& unbatchable() const noexcept { return unbatchable_; }
  /// Steps layers `first`, `first` + `spacing`, ... from stacked states. With a trace, as one operation, with parameters as parameters_of() gives
  /// them; without, one layer after the other, with its own.
  State step(int64_t first, int64_t spacing, const State& states, const State& extras, double dt, const BatchedLayer* trace = nullptr,
             const std::vector<at::Tensor>& parameters = {});
  /// The layers' trace for states like `example`, one of them; null where they cannot run as one. Traces and tries the layers, once for each shape.
  const BatchedLayer* trace_for(const State& example, const State& extras, double dt);

 private:
  std::string key_of(const State& example, const State& extras, double dt) const;
  std::string try_batched(const State& example, const State& extras, double dt, const std::string& key);

  BlockOptions options_;
  LevelPlan::Range range_;
  std::vector<Layer> layers_;
  std::vector<StackedTensor> parameters_;
  std::vector<StackedTensor> buffers_;
  bool training_ = true;
  std::map<std::string, std::shared_ptr<const BatchedLayer>> traces_;  // null: the layers do not run as one for this key
  std::string unbatchable_;
};

}  // namespace tw::layer_parallel
