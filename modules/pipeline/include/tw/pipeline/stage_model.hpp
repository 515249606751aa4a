// SPDX-License-Identifier: Apache-2.0
// What the stages of a pipeline are made of.
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

/// A part of a model, run after the one before it.
struct Block {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
};

/// Makes a block where it is called.
using BlockFactory = std::function<Block()>;

/// @param factory returns a module holder, such as torch::nn::Linear, whose forward takes and returns a tensor
template <class Factory>
BlockFactory block(Factory factory) {
  return [factory = std::move(factory)]() mutable -> Block {
    auto holder = factory();
    return {holder.ptr(), [holder](const at::Tensor& x) mutable { return holder->forward(x); }};
  };
}

/// One stage of a model, as a front end cuts it out.
struct StageModel {
  using Forward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs, const graph::PassRows& rows)>;

  /// This stage's parameters and buffers, under the names that they have in the whole model.
  std::shared_ptr<torch::nn::Module> module;
  /// Takes the outputs of the stage before (first stage: the inputs), returns at least one tensor for the next stage (last stage: the loss). What
  /// a later stage needs of an earlier one, the stages between pass on. Tensors of floating point or complex type have cotangents, others have none.
  /// `rows` are those of the inputs in the batch, with a key that each call of run() has of its own.
  Forward forward;
  /// Parameters of this stage that other stages have too: their name here, and one by which all those stages know it. Two names here
  /// may have one such name only if they are of one tensor. So for buffers that stages have under different names; those of one name are one anyway.
  /// A buffer or a tied parameter that several stages have may be changed by passes of one of them, which sends it to the others.
  std::map<std::string, std::string> tied = {};
  /// `forward` as functions one after the other, each of the same `rows`: what selective recomputation computes again at a time. Empty: one.
  std::vector<Forward> segments = {};
  /// `forward` runs in the mode of `module` as a whole, and does not see the modes of its parts.
  bool has_one_mode = false;
};

}  // namespace tw::pipeline
