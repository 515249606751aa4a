// SPDX-License-Identifier: Apache-2.0
// Blocks and stages of a pipeline.
#pragma once
#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tw/graph/interpreter.hpp>
#include <utility>
#include <vector>

namespace tw::pipeline {

/// A part of a model. Blocks run one after the other.
struct Block {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
};

/// Makes a block on the rank that calls it.
using BlockFactory = std::function<Block()>;

/// Makes a BlockFactory. @param factory returns a module holder, such as torch::nn::Linear, whose forward takes and returns a tensor
template <class Factory>
BlockFactory block(Factory factory) {
  return [factory = std::move(factory)]() mutable -> Block {
    auto holder = factory();
    return {holder.ptr(), [holder](const at::Tensor& x) mutable { return holder->forward(x); }};
  };
}

/// One stage of a model, on one rank.
struct StageModel {
  using Forward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs, const graph::PassRows& rows)>;

  /// This stage's parameters and buffers, under the names that they have in the whole model.
  std::shared_ptr<torch::nn::Module> module;
  /// Takes the previous stage's outputs (first stage: the model's inputs), and returns at least one tensor for the next stage (last stage: the
  /// model's outputs, from which run() computes the loss). Values for a later stage must be passed on by the stages between. Floating-point and
  /// complex tensors have cotangents, others have none. `rows` describes the inputs' rows in the batch; each run() and forward() has its own key.
  Forward forward;
  /// Parameters that this stage shares with other stages: maps the name on this stage to a name common to all of them. Two names on this stage may
  /// map to one common name only if they are one tensor. List shared buffers, too, if their names differ between stages; buffers with equal names are
  /// always shared. Passes of only one stage may change a shared buffer or tied parameter; that stage sends it to the others.
  std::map<std::string, std::string> tied = {};
  /// Names of trained parameters whose gradients are sparse, as `module` does not show if it has no embedding. Those of its embeddings need not be
  /// listed.
  std::vector<std::string> sparse = {};
  /// `forward` as a sequence of functions with the same `rows`; selective recomputation recomputes one function at a time. Empty: `forward` is a
  /// single segment.
  std::vector<Forward> segments = {};
  /// Whether `forward` communicates with other ranks that train parameters of this stage. The outputs of `forward` then need cotangents even if this
  /// rank trains no parameter.
  bool trains_elsewhere = false;
  /// Whether backward passes through `forward` and `segments` can run in two halves, because WeightGradients::here() records their matrix products.
  bool has_halves = false;
  /// Whether `forward` reads only the mode (training or evaluation) of `module` itself, not the modes of its submodules.
  bool has_one_mode = false;
};

}  // namespace tw::pipeline
