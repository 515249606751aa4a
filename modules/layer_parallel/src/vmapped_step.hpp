// SPDX-License-Identifier: Apache-2.0
// A traced step, run for several states with as many sets of parameters as one tensor operation, by functorch's vmap. Differentiable by autograd.
#pragma once
#include <memory>
#include <tw/layer_parallel/propagator.hpp>
#include <vector>

namespace torch::jit {
struct Graph;
}

namespace tw::layer_parallel {

class VmappedStep {
 public:
  /// @param graph see trace_step().
  explicit VmappedStep(std::shared_ptr<torch::jit::Graph> graph);
  ~VmappedStep();

  bool has_convolutions() const noexcept;
  /// @param states, parameters stacked, [n, ...]. @return stacked. @throws when an operation cannot be batched
  State run(const State& states, const State& extras, const std::vector<at::Tensor>& parameters) const;

 private:
  struct Trace;
  std::unique_ptr<Trace> trace_;
};

}  // namespace tw::layer_parallel
