// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <tw/base/contract.hpp>
#include <tw/data/dataset.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/train/model.hpp>
#include <tw/train/options.hpp>
#include <tw/train/report.hpp>
#include <utility>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace tw::train {

/// Where a run stands. Hooks may change the tensors and the optimizer, on all ranks alike, and end the run.
struct State {
  State(const Communicator& communicator, const Model& trained, torch::optim::Optimizer& by, const Options& as,
        std::function<double(double)> clip = {})
      : comm(communicator), model(trained), optimizer(by), options(as), clip_(std::move(clip)) {}

  const Communicator& comm;
  const Model& model;
  torch::optim::Optimizer& optimizer;
  const Options& options;
  int64_t epoch = 1;          ///< from 1
  int64_t step = 0;           ///< updates so far, in all epochs
  int64_t samples = 0;        ///< trained in this epoch so far, by all ranks
  int64_t epoch_samples = 0;  ///< that this epoch will train, by all ranks
  Batch batch;                ///< of this rank; may be empty. Rows of no elements where the model looks at no samples, such as on an inner stage
  at::Tensor outputs;         ///< undefined where the model returns the loss alone
  at::Tensor loss;            ///< of this rank's batch; on_forward() may put another in its place, where autograd's backward pass is still to come
  double mean_loss = 0;       ///< the same as a number; 0 for an empty batch. On an accelerator known from on_update() on, and the last one's before
  double learning_rate = 0;
  std::vector<std::string> figures{"loss"};  ///< names of the values that an evaluation returns, in order

  /// Ends the run, with a checkpoint: after this step; from on_backward() on, after one more. Any rank may ask. Where ranks meet rarely, when they
  /// do.
  void stop(std::string reason) { stop_reason = std::move(reason); }
  std::string stop_reason;

  /// In on_backward(): scales the gradients down to a norm of at most `max_norm`, with any strategy: the norm of all gradients of the model, each
  /// element once, wherever its gradient lies. (LibTorch's clip_grad_norm_ sees this rank's tensors alone.) Called on all ranks.
  /// @return the norm before, without the loss scale. The option max_gradient_norm does it in every step
  /// @throws ContractError outside a trainer's run
  double clip_gradient_norm(double max_norm) {
    TW_EXPECTS(clip_ != nullptr, "clip_gradient_norm() must be called in on_backward() of a hook of a Trainer");
    return clip_(max_norm);
  }

 private:
  std::function<double(double)> clip_;
};

/// Your own code inside the training loop, in the manner of torchnet's engine. Called on every rank; a hook that communicates does so on all.
class Hook {
 public:
  virtual ~Hook() = default;
  virtual void on_start(State& /*state*/) {}        ///< before the first step; after a resume too
  virtual void on_start_epoch(State& /*state*/) {}  ///< in mid-epoch too, after a resume
  virtual void on_sample(State& /*state*/) {}       ///< `batch` is there
  virtual void on_forward(State& /*state*/) {}      ///< `outputs` and `loss` are there; a pipeline has made its backward passes too
  /// Gradients are complete, and not yet used: reduced, each rank's own, or out of sight, as the strategy has it; those of scaled losses are still
  /// as much too large (PrecisionOptions). To clip them, call State::clip_gradient_norm().
  virtual void on_backward(State& /*state*/) {}
  virtual void on_update(State& /*state*/) {}  ///< the optimizer has stepped
  virtual void on_end_epoch(State& /*state*/, const EpochReport& /*report*/) {}
  virtual void on_end(State& /*state*/, const Summary& /*summary*/) {}
};

}  // namespace tw::train
