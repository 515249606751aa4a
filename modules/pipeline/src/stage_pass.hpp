// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace tw::pipeline {

/// What a rank keeps of one micro-batch from its forward to its backward pass.
class StagePass {
 public:
  /// The same result at each call, but for what it does to buffers.
  using Function = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

  StagePass() = default;
  /// @param module what `function` uses. @param wants by input, whether its cotangent is asked for. @param keeps_graph otherwise the forward pass is
  /// made again in backward()
  StagePass(torch::nn::Module& module, Function function, std::vector<at::Tensor> inputs, std::vector<uint8_t> wants, bool keeps_graph);

  /// Without graph.
  std::vector<at::Tensor> forward();
  /// After forward(): by output, whether its cotangent is of use.
  const std::vector<uint8_t>& wanted() const noexcept { return wanted_; }
  /// Adds to the gradients of parameters. Frees what was kept. @param cotangents by output, defined where wanted.
  /// @return cotangents of the inputs, defined where asked for
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& cotangents);

 private:
  std::vector<at::Tensor> record();

  torch::nn::Module* module_ = nullptr;
  Function function_;
  std::vector<at::Tensor> inputs_;  // those asked for are leaves
  std::vector<uint8_t> wants_;
  bool keeps_graph_ = true;
  std::vector<uint8_t> wanted_;
  torch::autograd::edge_list ends_;  // of the graph, by output; empty without graph
};

}  // namespace tw::pipeline
