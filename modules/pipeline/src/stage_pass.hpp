// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/csrc/autograd/function.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "buffer_states.hpp"

namespace tw::pipeline {

/// What a rank keeps of one micro-batch from its forward to its backward pass: the inputs of its segments, and of the last one its graph in their
/// place where that is asked for.
///
/// The backward pass goes from the last segment to the first: it computes the segment again, with its graph and with the random numbers and the
/// buffers of the first time, runs the segment's backward pass, and frees it.
class StagePass {
 public:
  /// The same result at each call, but for what it does to buffers.
  using Function = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

  StagePass() = default;
  /// @param module what `segments` use, one after the other, of which there is one at least
  StagePass(torch::nn::Module& module, const std::vector<Function>& segments, bool keeps_graph);

  /// @param wants by input, whether its cotangent is asked for. @return outputs, without graph
  /// @throws Error naming a parameter that a function changes which would have to be computed again
  std::vector<at::Tensor> forward(std::vector<at::Tensor> inputs, const std::vector<uint8_t>& wants);
  /// After forward(): by output, whether its cotangent is of use.
  const std::vector<uint8_t>& wanted() const noexcept { return wanted_; }
  /// Adds to the gradients of parameters. Frees what was kept. @param cotangents by output; undefined where nothing depends on the output.
  /// @return cotangents of the inputs that were asked for; undefined where nothing depends on the input
  std::vector<at::Tensor> backward(std::vector<at::Tensor> cotangents);

 private:
  struct Segment {
    Function function;
    std::vector<at::Tensor> inputs = {};  // those asked for are leaves
    std::vector<uint8_t> wants = {};
    std::vector<at::Tensor> random = {};   // states of the generators before it
    torch::autograd::edge_list ends = {};  // of its graph, by output
    bool has_graph = false;

    std::vector<at::Tensor> run() const;
    std::vector<at::Tensor> record();
    std::vector<at::Tensor> backward(std::vector<at::Tensor> cotangents);
  };

  torch::nn::Module* module_ = nullptr;
  std::vector<Segment> segments_;
  BufferStates buffers_;  // before each segment, where one is computed again
  bool keeps_graph_ = true;
  std::vector<uint8_t> wanted_;
};

}  // namespace tw::pipeline
