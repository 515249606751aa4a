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

/// What one stage computes.
struct Stage {
  using Forward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs, const graph::PassRows& rows)>;

  /// Takes the previous stage's outputs (first stage: the model's inputs), and returns at least one tensor for the next stage (last stage: the
  /// model's outputs, from which run() computes the loss). Values for a later stage must be passed on by the stages between. Floating-point and
  /// complex tensors have cotangents, others have none. `rows` describes the inputs' rows in the batch; each run() and forward() has its own key.
  Forward forward;
  /// `forward` as a sequence of functions with the same `rows`; selective recomputation recomputes one function at a time. Empty: `forward` is a
  /// single segment.
  std::vector<Forward> segments = {};
};

/// The stages of a rank: usually one, several where the schedule has several on a device.
struct StageModel {
  /// The stages' parameters and buffers, under the names that they have in the whole model.
  std::shared_ptr<torch::nn::Module> module;
  std::vector<Stage> stages;  ///< in the order in which data flows
  /// Parameters that these stages share with stages of other ranks (not replicas): maps the name here to a name common to all of them. Two names here
  /// may map to one common name only if they are one tensor. List shared buffers, too, if their names differ between ranks; buffers with equal names
  /// are always shared. Passes of only one stage may change a shared buffer or tied parameter; its rank sends it to the others after a run. Stages on
  /// the same rank see a change at once, in the order of the schedule.
  std::map<std::string, std::string> tied = {};
  /// Names of trained parameters whose gradients are sparse, as `module` does not show if it has no embedding. Those of its embeddings need not be
  /// listed.
  std::vector<std::string> sparse = {};
  /// Whether the stages communicate with other ranks that train parameters of the same stages. Their outputs then need cotangents even if this rank
  /// trains no parameter.
  bool trains_elsewhere = false;
  /// Whether the stages' backward passes can run in two halves, because WeightGradients::here() records their matrix products.
  bool has_halves = false;
  /// Whether a tensor that passes change is used by one of these stages only, as in captured modules. If not, a rank with several stages watches and
  /// copies buffers in each pass.
  bool has_separate_state = false;
  /// Whether the stages read only the mode (training or evaluation) of `module` itself, not the modes of its submodules.
  bool has_one_mode = false;
};

}  // namespace tw::pipeline
