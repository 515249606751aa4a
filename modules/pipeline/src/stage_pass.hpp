// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/csrc/autograd/function.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <vector>

#include <tw/autograd/weight_gradients.hpp>

#include "buffer_states.hpp"

namespace tw::pipeline {

/// What a rank keeps of one micro-batch between its forward and its backward pass: the inputs of each segment, or, for the last segment if requested,
/// its graph instead.
///
/// The backward pass goes from the last segment to the first. It recomputes each segment with its graph, with the original random numbers and
/// buffers, runs the segment's backward pass, and frees it.
class StagePass {
 public:
  /// Must return the same result at each call, apart from changes to buffers.
  using Function = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

  struct Manner {
    bool trains = false;     // outputs need cotangents even if the module trains nothing; see StageModel::trains_elsewhere
    bool in_halves = false;  // backward() leaves gradients of parameters to backward_weights()
    bool is_alone = true;    // only these segments change what they use of the module
  };

  StagePass() = default;
  /// @param module the module that `segments` use. @param segments run one after the other; at least one
  StagePass(torch::nn::Module& module, const std::vector<Function>& segments, bool keeps_graph, const Manner& manner);

  /// @param wants by input, whether its cotangent is wanted. @return outputs, without graph
  /// @throws Error naming a parameter that a function changes and that recomputation would change again
  std::vector<at::Tensor> forward(std::vector<at::Tensor> inputs, const std::vector<uint8_t>& wants);
  /// By output, whether its cotangent is needed. Valid after forward().
  const std::vector<uint8_t>& wanted() const noexcept { return wanted_; }
  /// Adds to the gradients of parameters, and frees the kept data. @param cotangents by output; undefined if nothing depends on the output.
  /// @return cotangents of the wanted inputs; undefined if nothing depends on the input
  std::vector<at::Tensor> backward(std::vector<at::Tensor> cotangents);
  /// Adds the gradients that backward() has left, and frees what they needed.
  void backward_weights() { later_.accumulate(); }

 private:
  struct Segment {
    Function function;
    std::vector<at::Tensor> inputs = {};  // inputs with a wanted cotangent are leaves
    std::vector<uint8_t> wants = {};
    std::vector<at::Tensor> random = {};   // states of the generators before the segment
    torch::autograd::edge_list ends = {};  // end points of its graph, by output
    bool has_graph = false;

    std::vector<at::Tensor> run() const;
    std::vector<at::Tensor> record();  // its outputs, detached
    std::vector<at::Tensor> backward(std::vector<at::Tensor> cotangents);
  };

  std::vector<at::Tensor> record(Segment& segment);

  torch::nn::Module* module_ = nullptr;
  std::vector<Segment> segments_;
  BufferStates buffers_;            // buffers before each segment that is recomputed
  std::vector<uint32_t> versions_;  // of the parameters before the pass, if any segment is recomputed
  bool keeps_graph_ = true;
  Manner manner_;
  WeightGradients later_;
  std::vector<uint8_t> wanted_;
};

}  // namespace tw::pipeline
