// SPDX-License-Identifier: Apache-2.0
// Controls the number of iterations of training passes, and checks whether these iterations converge.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <tw/base/option.hpp>
#include <tw/gradients/trainable_model.hpp>
#include <tw/layer_parallel/iterated_network.hpp>
#include <vector>

namespace tw::layer_parallel {

/// What to do if iterations converge too slowly.
enum class Reaction {
  warn,             ///< only log a warning
  more_iterations,  ///< double the iterations of later passes; like `serial` if a doubled number exceeds DetectorOptions::max_iterations
  serial,           ///< make all steps of later passes one after the other
};

/// A detector regularly checks whether iterations converge. A check is a training pass with twice the usual iterations (at least three, so that there
/// are two residuals). Its convergence factor is the last residual divided by the one before, which should not exceed `bound`. A larger factor means
/// that more iterations gain little. A smaller one does not show how accurate the gradients of other passes are. Ref: Jiang et al. 2026, arXiv
/// 2601.09026.
struct DetectorOptions {
  int64_t every = 0;  ///< one in this many training passes is a check, beginning with the first pass; 0: no checks
  double bound = 1;   ///< largest accepted convergence factor of any block, forward or backward
  Reaction reaction = Reaction::warn;
  int max_iterations = 16;  ///< for Reaction::more_iterations

  /// @throws ContractError naming the first invalid field, if there is one.
  void validate() const;
};
void visit(DetectorOptions& options, OptionVisitor& visitor);

/// The iterations of passes from epoch `epoch` on.
struct IterationStage {
  int64_t epoch = 1;
  Iterations iterations;
};

/// A list of IterationStages as three lists of the same length.
struct IterationSchedule {
  std::vector<int64_t> epochs = {};  ///< ascending
  std::vector<int> forward = {};
  std::vector<int> backward = {};

  std::vector<IterationStage> stages() const;
};
void visit(IterationSchedule& schedule, OptionVisitor& visitor);

/// Levels and iterations of a training run, for LayerParallel and for Recurrent.
struct IterationOptions {
  int levels = 2;
  int64_t coarsening = 8;
  int forward_iterations = 2;
  int backward_iterations = 1;
  int relaxations = 0;
  IterationSchedule schedule = {};
  DetectorOptions detector = {};

  /// Sets levels, coarsening, iterations and relaxations in `options`. @param options LayerParallelOptions or RecurrentOptions
  template <class Options>
  void apply_to(Options& options) const {
    options.levels = levels;
    options.coarsening = coarsening;
    options.forward.iterations = forward_iterations;
    options.backward.iterations = backward_iterations;
    options.forward.cycle.relaxations = options.backward.cycle.relaxations = relaxations;
  }
  /// Returns the contradictions between values. Their keys begin with "layer_parallel.".
  std::vector<Problem> contradictions() const;
};
void visit(IterationOptions& options, OptionVisitor& visitor);

/// The result of a detector's check.
struct Detection {
  int64_t pass = 0;       ///< number of the training pass, TrainingPass::number
  Iterations iterations;  ///< iterations of passes before the check
  double factor = 0;      ///< largest convergence factor of all blocks and directions; 0 if residuals are only rounding errors
  std::string where;      ///< block and direction of this factor, such as "block 1, backward"
  bool fired = false;     ///< whether the factor exceeds the bound
  Iterations then;        ///< iterations of passes after the check
};

/// A TrainableModel that sets the iterations of an IteratedNetwork by a schedule and a detector. It logs a warning with pass, block and direction
/// when passes begin to diverge. Along a mesh axis `data`, each replica has its own detector, because replicas get different samples.
class IterationControl : public ModelDecorator {
 public:
  /// Local. @param model contains `network`, or is `network` itself @param schedule ascending by epoch; before its first epoch the network's own
  /// iterations apply
  /// @throws ContractError for an invalid schedule or detector
  IterationControl(std::shared_ptr<TrainableModel> model, std::shared_ptr<IteratedNetwork> network, std::vector<IterationStage> schedule,
                   const DetectorOptions& detector);

  /// @throws ContractError if a check is due and the network computes no residuals
  void pass(const TrainingPass& pass) override;
  /// The model's shards, and the detector's last decision, which is restored only if a run resumes on the same number of ranks.
  std::vector<NamedShard> shards() const override;

  /// Statistics of the last training pass. Local.
  const NetworkReport& report() const noexcept { return report_; }
  /// All checks so far. Local, the same on all ranks of the network.
  const std::vector<Detection>& history() const noexcept { return history_; }

 private:
  Iterations wanted(int64_t epoch) const;
  void set(Iterations iterations);
  void warn_of_divergence(int64_t number);
  void check_convergence(int64_t number, Iterations usual);

  std::shared_ptr<IteratedNetwork> network_;
  std::vector<IterationStage> schedule_;
  DetectorOptions detector_;
  Iterations first_;
  at::Tensor raised_;  // int64 [2]: minimum iterations, forward and backward; 0: serial, -1: as scheduled
  NetworkReport report_;
  std::vector<Detection> history_;
  bool diverged_ = false;  // the last pass
};

}  // namespace tw::layer_parallel
