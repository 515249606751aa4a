// SPDX-License-Identifier: Apache-2.0
// A layer's function as a value of its own: traced once, then run for several states with as many sets of parameters, as one tensor operation, by
// functorch's vmap.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <tw/layer_parallel/block.hpp>

namespace tw::layer_parallel {

class BatchedLayer {
 public:
  /// Traces layer.forward. @param parameters those of the layer, in the order in which run() gets them.
  /// @throws when the layer cannot be traced
  BatchedLayer(const Layer& layer, const std::vector<at::Tensor>& parameters, const State& example, const State& extras, double dt);
  ~BatchedLayer();

  bool has_convolutions() const noexcept;
  /// @param states, parameters stacked, [n, ...]. @return layer.forward of each, stacked. @throws when an operation cannot be batched
  State run(const State& states, const State& extras, const std::vector<at::Tensor>& parameters) const;

 private:
  struct Trace;
  std::unique_ptr<Trace> trace_;
};

}  // namespace tw::layer_parallel
