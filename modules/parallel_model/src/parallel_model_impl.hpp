// SPDX-License-Identifier: Apache-2.0
// The implementation of ParallelModel. Its functions are in training_step.cpp, update_memory.cpp, optimizer_step.cpp, evaluation.cpp, saving.cpp and
// parallel_model.cpp.
#pragma once
#include <torch/optim/optimizer.h>

#include <functional>
#include <memory>
#include <string>
#include <tw/autograd/compute_type.hpp>
#include <tw/data_parallel/gradient_sums.hpp>
#include <tw/data_parallel/split_draws_check.hpp>
#include <tw/parallel_model/parallel_model.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

#include "buffer_rules.hpp"
#include "calls.hpp"
#include "model_ranks.hpp"
#include "model_state.hpp"
#include "program.hpp"
#include "step_agreement.hpp"

namespace tw {

class ParallelModel::Impl {
 public:
  using Tensors = std::vector<at::Tensor>;

  Impl(const Mesh& of, std::shared_ptr<Calls> calls, std::unique_ptr<Program> program, const ParallelOptions& options);

  TrainableModel& model() const { return program_->model(); }
  const Mesh& mesh() const { return calls_->mesh(); }
  /// Begins a call; makes everything again that communicates if a call has failed.
  void begin();
  /// The facts of this rank's batch, and what all ranks agree on. Throws on all ranks alike, before anything has changed.
  std::pair<BatchFacts, Update> agree(BatchFacts::Call call, const Tensors& inputs, const Tensors& targets, const Loss& loss);

  double train_step(const Tensors& inputs, const Tensors& targets, const Loss& loss);
  UpdateMemory memory(const Tensors& inputs, const Tensors& targets, const Loss& loss, const torch::optim::Optimizer& optimizer);
  Tensors forward(const Tensors& inputs);
  std::vector<double> evaluate(const Tensors& inputs, const Tensors& targets, const std::vector<OutputSum>& sums, int64_t rows);
  double clip(double max_norm);
  /// Checks that the optimizer trains only the model's tensors, since others would be neither unscaled nor clipped. Frozen tensors are allowed, and
  /// those of other stages, which have no memory. Checks only the first step that divides or clips; throws on all ranks alike.
  void expect_own(const torch::optim::Optimizer& optimizer, const StepOptions& options);
  bool step(torch::optim::Optimizer& optimizer, const StepOptions& options);
  OptimizerState state_of(torch::optim::Optimizer& optimizer) const;

  std::shared_ptr<Calls> calls_;
  ReplicaSync replicas_;
  Communicator lasting_;  // ranks that communicate in every update; never revoked, so that a model whose call has failed can be saved
  std::unique_ptr<ModelRanks> ranks_;
  int64_t micro_batches_;
  std::unique_ptr<Program> program_;
  std::vector<int> place_of_;  // place of each rank that communicates in every update, see ModelRanks::place_of()
  Tensors parameters_;         // parameters of the model on this rank
  bool has_stepped_ = false;
  bool knows_optimizer_ = false;  // whether a step() has checked it
  SplitDrawsCheck split_draws_;
  ModelState state_;
  std::vector<std::string> names_;  // by optimized tensor
  std::vector<uint8_t> counted_;    // by optimized tensor
  BufferRules buffers_;
  BufferRules renormalised_;  // parameters that a pass changes in place, and that are restored as buffers are
  ComputeType compute_;
  c10::DeviceType kind_;
  std::unique_ptr<GradientSums> sums_;
  std::vector<OptimizedTensor> optimized_;
  std::vector<NamedTensor> named_;  // tensors of optimized_
  std::unordered_set<const c10::TensorImpl*> own_tensors_;
  std::string explanation_;

 private:
  struct StepMemory;

  bool is_independent(const Mesh& mesh) const { return replicas_ == ReplicaSync::independent && size_along(mesh.shape(), "data") > 1; }
  std::unique_ptr<GradientSums> make_sums(const ParallelOptions& options) const;
  /// Why this rank cannot make a pass; empty: it can.
  std::string problem_of(BatchFacts::Call call, const Tensors& inputs) const;
  double make_step(const Tensors& inputs, const Tensors& targets, const Loss& loss, double target_weight, const Update& update);
  double accumulate(const ProgramPass& pass);
  /// Tensors that were frozen after parallelize(), with their gradients, to which passes must add nothing.
  std::vector<std::pair<at::Tensor, at::Tensor>> frozen_gradients() const;
  /// Call before a step that may be undone.
  void remember();
  void undo_step() const;
  void drop_gradients() const;
  /// Makes a step, and undoes it.
  StepMemory count_memory(const std::function<void()>& step);
  /// Outputs for sums, in at least float32.
  Tensors outputs_of(const Tensors& inputs);
  std::vector<double> make_evaluation(const Tensors& inputs, const Tensors& targets, const std::vector<OutputSum>& sums, int64_t rows,
                                      const Update& batch);
};

}  // namespace tw
