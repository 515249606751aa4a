// SPDX-License-Identifier: Apache-2.0
// How many iterations the passes of a training make, and whether they converge.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <tw/base/option.hpp>
#include <tw/gradients/trained_model.hpp>
#include <tw/layer_parallel/iterated_network.hpp>
#include <vector>

namespace tw::layer_parallel {

/// What to do when iterations converge too slowly.
enum class Reaction {
  warn,             ///< only log a warning
  more_iterations,  ///< twice as many from then on; serial where that would be more than `most_iterations`
  serial,           ///< from then on all steps one after the other
};

/// Looks now and then whether iterations converge: one pass with twice the iterations (and three at least, for two residuals), whose last residual
/// over the one before, the convergence factor, must not exceed a bound. A factor above it means that more iterations gain little. A factor below it
/// does not show how far the gradients of usual passes are from the exact ones. Ref: Jiang et al. 2026, arXiv 2601.09026.
struct DetectorOptions {
  int64_t every = 0;  ///< training passes from one check to the next, beginning with the first pass; 0: none
  double bound = 1;   ///< of the convergence factor, in either direction of any block
  Reaction reaction = Reaction::warn;
  int most_iterations = 16;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(DetectorOptions& options, OptionVisitor& visitor);

/// Iterations from an epoch on.
struct IterationStage {
  int64_t epoch = 1;
  Iterations iterations;
};

/// IterationStages as lists of the same length.
struct IterationSchedule {
  std::vector<int64_t> epochs = {};  ///< ascending
  std::vector<int> forward = {};
  std::vector<int> backward = {};

  std::vector<IterationStage> stages() const;
};
void visit(IterationSchedule& schedule, OptionVisitor& visitor);

/// Levels and iterations of a training, for LayerParallel and Recurrent alike.
struct IterationOptions {
  int levels = 2;
  int64_t coarsening = 8;
  int forward_iterations = 2;
  int backward_iterations = 1;
  int relaxations = 0;
  IterationSchedule schedule = {};
  DetectorOptions detector = {};

  /// Sets levels and iterations. @param options LayerParallelOptions or RecurrentOptions
  template <class Options>
  void apply_to(Options& options) const {
    options.levels = levels;
    options.coarsening = coarsening;
    options.forward.iterations = forward_iterations;
    options.backward.iterations = backward_iterations;
    options.forward.cycle.relaxations = options.backward.cycle.relaxations = relaxations;
  }
  /// Values that exclude each other. Keys begin with "layer_parallel.".
  std::vector<Problem> contradictions() const;
};
void visit(IterationOptions& options, OptionVisitor& visitor);

/// What a look found.
struct Detection {
  int64_t pass = 0;       ///< TrainingPass::number
  Iterations iterations;  ///< of passes until then
  double factor = 0;      ///< the largest of all blocks and directions; 0 where residuals are rounding alone
  std::string where;      ///< such as "block 1, backward"
  bool fired = false;
  Iterations then;  ///< of passes from then on
};

/// A network that is solved by iterations, as a TrainedModel whose iterations follow a schedule, and a detector. It also logs a warning when
/// passes begin to diverge, with pass, block and direction. Along a `data` axis each model has its own detector, because it has other samples.
class IterationControl : public ModelOverModel {
 public:
  /// Local. @param model made of `network`, or that itself @param schedule by epoch, ascending; before the first the network's own iterations
  /// @throws ContractError for a schedule or detector that is wrong
  IterationControl(std::shared_ptr<TrainedModel> model, std::shared_ptr<IteratedNetwork> network, std::vector<IterationStage> schedule,
                   const DetectorOptions& detector);

  /// @throws ContractError when the detector finds that the network computes no residuals
  void pass(const TrainingPass& pass) override;
  /// And what the detector has decided, for a run that is resumed on as many ranks.
  std::vector<NamedShard> shards() const override;

  /// Of the last training pass. Local.
  const NetworkReport& report() const noexcept { return report_; }
  /// All looks so far. Local, the same on all ranks of the network.
  const std::vector<Detection>& history() const noexcept { return history_; }

 private:
  Iterations wanted(int64_t epoch) const;
  void set(Iterations iterations);
  void tell_of_divergence(int64_t number);
  void look(int64_t number, Iterations usual);

  std::shared_ptr<IteratedNetwork> network_;
  std::vector<IterationStage> schedule_;
  DetectorOptions detector_;
  Iterations first_;
  at::Tensor raised_;  // int64 [2]: at least as many, 0: serial; -1: as scheduled
  NetworkReport report_;
  std::vector<Detection> history_;
  bool diverged_ = false;  // the last pass
};

}  // namespace tw::layer_parallel
