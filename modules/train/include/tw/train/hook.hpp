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

/// The state of a run. Hooks may change its tensors and the optimizer, in the same manner on all ranks, and may end the run.
struct State {
  State(const Communicator& communicator, const Model& trained, torch::optim::Optimizer& by, const Options& as,
        std::function<double(double)> clip = {})
      : comm(communicator), model(trained), optimizer(by), options(as), clip_(std::move(clip)) {}

  const Communicator& comm;
  const Model& model;
  torch::optim::Optimizer& optimizer;
  const Options& options;
  int64_t epoch = 1;          ///< from 1
  int64_t step = 0;           ///< updates so far, over all epochs
  int64_t samples = 0;        ///< samples trained in this epoch so far, by all ranks
  int64_t epoch_samples = 0;  ///< total samples of this epoch, over all ranks
  Batch batch;               ///< this rank's batch; may be empty. Rows have no elements where the model needs no samples (inner stages of a pipeline)
  at::Tensor outputs;        ///< undefined if the model's pass() returns only the loss (a pipeline); may be undefined for an empty batch
  at::Tensor loss;           ///< loss of this rank's batch; on_forward() may replace it if TrainableModel::makes_one_backward_pass()
  double mean_loss = 0;      ///< `loss` as a number; 0 for an empty batch. On an accelerator, it is the previous step's until on_update() is called
  double learning_rate = 0;  ///< rate of the first group in this update. A hook may set rates in `optimizer`; the schedule then scales the new rates
  std::vector<std::string> figures{"loss"};  ///< names of the values that an evaluation returns, in order

  /// Ends the run with a checkpoint: after this step, or after the next one if called in on_backward() or later. Any rank may call it. With
  /// strategies that synchronise rarely, the run ends at the next synchronisation.
  void stop(std::string reason) { stop_reason = std::move(reason); }
  std::string stop_reason;

  /// Scales the gradients down to a norm of at most `max_norm`, with any strategy. Call it in on_backward(), on all ranks. The norm counts each
  /// element of the model's gradients once, whichever rank holds it. (LibTorch's clip_grad_norm_() would use this rank's tensors only, so it throws
  /// if other ranks hold other parts.)
  /// @return the norm before this call, of gradients without the loss scale. To clip in every step, set Options::clip instead
  /// @throws ContractError outside a trainer's run
  double clip_gradient_norm(double max_norm) {
    TW_EXPECTS(clip_ != nullptr, "clip_gradient_norm() must be called in on_backward() of a hook of a Trainer");
    return clip_(max_norm);
  }

 private:
  std::function<double(double)> clip_;
};

/// Your own code inside the training loop, in the manner of torchnet's engine. A hook is called on each rank that added it; a hook that communicates
/// must be added on all ranks.
class Hook {
 public:
  virtual ~Hook() = default;
  virtual void on_start(State& /*state*/) {}        ///< before the first step, also after a resume
  virtual void on_start_epoch(State& /*state*/) {}  ///< also in the middle of an epoch, after a resume
  virtual void on_sample(State& /*state*/) {}       ///< per pass: `batch` is available
  virtual void on_forward(State& /*state*/) {}      ///< per pass: `outputs` and `loss` are available; a pipeline has also made its backward passes
  /// All gradients of the update are complete, and not yet used. Depending on the strategy, they are reduced, local to each rank, or not accessible.
  /// Gradients of scaled losses still contain the scale (PrecisionOptions). To clip, call State::clip_gradient_norm().
  virtual void on_backward(State& /*state*/) {}
  virtual void on_update(State& /*state*/) {}  ///< after each update, also after a skipped one
  virtual void on_end_epoch(State& /*state*/, const EpochReport& /*report*/) {}
  virtual void on_end(State& /*state*/, const Summary& /*summary*/) {}
};

}  // namespace tw::train
