// SPDX-License-Identifier: Apache-2.0
// What the ranks that hold a model together compute for a batch.
#pragma once
#include <ATen/core/grad_mode.h>

#include <functional>
#include <memory>
#include <string>
#include <tw/autograd/compute_type.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/mesh.hpp>
#include <tw/data_parallel/gradient_sums.hpp>
#include <tw/data_parallel/initial_values.hpp>
#include <tw/gradients/loss.hpp>
#include <tw/gradients/trainable_model.hpp>
#include <tw/graph/capture.hpp>
#include <tw/parallel_model/options.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <vector>

namespace tw {

/// The shape of a tensor that requires a gradient, is none of `known`, and on which `loss` depends other than through `outputs`. Its gradient is not
/// summed over the ranks. Empty: there is no such tensor.
std::string other_leaf(const at::Tensor& loss, const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& known);

/// The part of an update at this rank's place along the sample axes.
struct ProgramPass {
  const std::vector<at::Tensor>& inputs;
  const std::vector<at::Tensor>& targets;
  const Loss& loss;
  int64_t rows = 0;                           ///< rows at this place
  double target_weight = 0;                   ///< weight of `targets`
  double weight = 1;                          ///< number by which the sum of weighted means is divided
  int64_t update = 0;                         ///< number of the update, from 0
  int64_t place = 0;                          ///< place along the sample axes
  mutable bool warns = false;                 ///< whether to warn if the loss has its own parameters; reset by the first check
  const std::vector<at::Tensor>& parameters;  ///< parameters of the model on this rank

  /// The factor of a micro-batch's mean.
  double factor(const std::vector<at::Tensor>& part_of_targets, int64_t rows_of_part) const {
    if (loss.is_sum()) return loss.scale();
    return loss.scale() * (rows_of_part == rows ? target_weight : loss.weight(part_of_targets, rows_of_part)) / weight;
  }
  /// A micro-batch's mean. @throws ContractError if it is not one number
  at::Tensor mean(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& part_of_targets) const {
    const at::Tensor mean = in_float32(loss.mean(outputs, part_of_targets));
    TW_EXPECTS(mean.numel() == 1, "a loss must be one number, got a tensor of shape ", mean.sizes());
    if (!at::GradMode::is_enabled()) return mean;  // it is computed again with gradients
    TW_EXPECTS(mean.requires_grad(), "the loss depends on no parameter that is trained, so it has no gradient");
    if (warns) warn_of_others(mean, outputs);
    return mean;
  }

 private:
  void warn_of_others(const at::Tensor& mean, const std::vector<at::Tensor>& outputs) const;
};

class Program {
 public:
  virtual ~Program() = default;

  /// This rank's tensors, and their place in the whole model.
  virtual TrainableModel& model() = 0;
  /// An error text if the user has changed the module in a way that passes do not support; empty: no problem.
  virtual std::string problem() const { return ""; }
  /// A hash of which parts are in training mode, the same on all ranks that have the same modes.
  virtual int64_t modes() const { return 0; }
  /// The module that FullySharded divides; null: the parameters of model().
  virtual std::shared_ptr<torch::nn::Module> module() const { return nullptr; }
  /// Initial values of parameters without memory; null: all have memory.
  virtual const InitialValues* initial() const { return nullptr; }
  /// Whether a pass uses parameters many times, so that sharded ones are gathered once an update. Otherwise they are gathered at each use.
  virtual bool reuses_parameters() const { return true; }
  /// Adds the gradients of the weighted mean loss to those of the parameters, and sums them by `sums`. Collective over the model's ranks and the
  /// ranks that sum. @return the weighted mean loss of this place, times its scale, on each of the model's ranks
  virtual double accumulate(const ProgramPass& pass, GradientSums& sums) = 0;
  virtual std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs) = 0;
  /// The same, but only one of the model's ranks gets the outputs; the others get none.
  virtual std::vector<at::Tensor> evaluate(const std::vector<at::Tensor>& inputs) = 0;
  /// Continues over new communicators of the same ranks, after the previous ones were revoked. Collective over the mesh.
  virtual void restart(const Mesh& mesh) = 0;
  /// Inputs for passes whose results are not used.
  virtual const std::vector<at::Tensor>& example() const = 0;
  /// Describes how the model is divided.
  virtual std::string explain() const { return ""; }

 protected:
  Program() = default;
  Program(const Program&) = default;
  Program& operator=(const Program&) = default;
};

/// 1: `model` is a module in training mode; 2: in evaluation mode; 0: it is no module.
int64_t mode_of(const TrainableModel& model);

/// A module under autograd.
struct AutogradProgramSetup {
  std::shared_ptr<torch::nn::Module> module = nullptr;  ///< null: see Program::module(); passes use parameters many times
  std::shared_ptr<TrainableModel> model;
  graph::Forward forward;
  std::vector<at::Tensor> example = {};                         ///< inputs for ranks without rows; empty: such ranks cannot take part in passes
  bool reads = true;                                            ///< whether this rank, among the model's ranks, gets the outputs of evaluate()
  std::shared_ptr<const InitialValues> initial = nullptr;       ///< see Program::initial()
  std::function<void(int64_t pass, int64_t place)> begin = {};  ///< called before each micro-batch, and for the next one after an update; may be
                                                                ///< empty
  std::function<void(const Mesh& mesh)> restart = {};           ///< see Program::restart(); empty: the module does not communicate
};
std::unique_ptr<Program> autograd_program(AutogradProgramSetup setup, const ParallelOptions& options);

/// Stages of a pipeline.
struct PipelineProgramSetup {
  std::shared_ptr<pipeline::Pipeline> pipeline;
  std::shared_ptr<TrainableModel> model;      ///< trains `pipeline`
  std::vector<at::Tensor> example = {};       ///< inputs for passes whose results are not used
  bool reads = true;                          ///< whether this rank, among those with the same stage, gets the outputs of evaluate()
  std::function<std::string()> problem = {};  ///< see Program::problem(); may be empty
  std::function<int64_t()> mode = {};         ///< see Program::modes(); empty: of `pipeline`
  std::function<void()> before_pass = {};     ///< called before each pass, also without gradients; may be empty
  std::function<void(int64_t update, int64_t rows, int64_t place)> begin = {};  ///< called before each update; may be empty
  std::function<void(const Mesh& mesh)> restart = {};                           ///< for stages that communicate, see Program::restart(); may be empty
  std::string explanation = {};
  std::shared_ptr<const InitialValues> initial = nullptr;  ///< see Program::initial()
};
std::unique_ptr<Program> pipeline_program(PipelineProgramSetup setup);

}  // namespace tw
