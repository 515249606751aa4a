// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <tw/gradients/module_modes.hpp>
#include <tw/mpi/revoke_on_exception.hpp>
#include <tw/pipeline/pipeline.hpp>

#include "batch_run.hpp"
#include "frozen_parameters.hpp"
#include "shared_state.hpp"
#include "stage_gradients.hpp"

namespace tw::pipeline {

/// Arguments for the construction of a pipeline.
struct Pipeline::Start {
  Communicator comm;  // owned by the pipeline
  StageModel model;
  PipelineOptions options;
};

/// The members of a pipeline.
class Pipeline::Impl {
 public:
  explicit Impl(Start start);

  Communicator comm_;
  StageModel model_;
  PipelineOptions options_;
  StageRanks ranks_;
  Place place_;
  FrozenParameters frozen_;
  std::unique_ptr<StageGradients> gradients_;
  std::unique_ptr<SharedState> shared_;
  uint64_t seed_;             // seed of this replica's random numbers
  at::Tensor calls_;          // number of calls of run(); a tensor, because checkpoints contain it
  uint64_t evaluations_ = 0;  // calls of forward() since the last run()
  OnPhase on_phase_;
  TrainingSwitch switch_;
  std::string failure_;                          // message of the pass that failed; empty: none
  std::optional<c10::Device> device_of_others_;  // device of other ranks' parameters, if this rank has none

  /// Makes the objects that communicate over comm_. Collective.
  void make_reducers();
  /// Agrees on the number of rows of a batch, and makes everything that must exist before a rank may throw. Collective; throws on all ranks alike.
  /// @param targets none: forward()
  int64_t agree_on_rows(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>* targets);
  /// Runs `pass`. If it throws on any rank, it ends on all ranks, and expect_usable() throws from then on.
  template <class Pass>
  auto in_pass(const Pass& pass) {
    try {
      return revoke_on_exception(comm_, pass);
    } catch (const std::exception& e) {
      failure_ = e.what();
      throw;
    } catch (...) {
      failure_ = "an exception that is not a std::exception";
      throw;
    }
  }
  void expect_usable() const;
  /// The name of a submodule whose mode a pass would ignore; empty: none.
  std::string part_of_other_mode() const;
  /// Returns the batch. A rank without parameters and buffers, such as one whose stage only flattens, copies it to the device of the others'
  /// parameters. Call it after agree_on_rows().
  std::vector<at::Tensor> on_model_device(std::vector<at::Tensor> batch) const;
  /// This rank's rows of the outputs of its last stage, for the rows `all` that all ranks agreed on. Collective.
  std::vector<at::Tensor> pass_forward(const std::vector<at::Tensor>& inputs, Rows all);
  /// The outputs for a batch, without gradients. Collective. @param everywhere false: only on the first rank of the last stage, empty elsewhere
  std::vector<at::Tensor> outputs_of(const std::vector<at::Tensor>& inputs, bool everywhere);
};

/// The ranks and stages of all devices.
StageRanks ranks_of(const PipelineOptions& options);

/// Checks that options are valid, fit the communicator, and agree on all ranks. Collective. @param what further text that must agree
/// @throws ContractError on every rank
void expect_fit(const Communicator& comm, const PipelineOptions& options, const std::string& what);

}  // namespace tw::pipeline
