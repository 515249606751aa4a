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

/// What a pipeline is made of.
struct Pipeline::Start {
  Communicator comm;  // its own
  StageModel model;
  PipelineOptions options;
  std::pair<int64_t, int64_t> blocks = {0, 0};
};

/// What a pipeline has.
class Pipeline::Impl {
 public:
  explicit Impl(Start start);

  Communicator comm_;
  StageModel model_;
  PipelineOptions options_;
  std::pair<int64_t, int64_t> blocks_;
  StageRanks ranks_;
  Place place_;
  FrozenParameters frozen_;
  std::unique_ptr<StageGradients> gradients_;
  std::unique_ptr<SharedState> shared_;
  std::shared_ptr<int> pauses_ = std::make_shared<int>(0);
  uint64_t seed_;             // of the random numbers of this replica
  at::Tensor calls_;          // of run(); in a checkpoint, so a tensor
  uint64_t evaluations_ = 0;  // calls of forward() since the last one of run()
  OnPhase on_phase_;
  TrainingSwitch switch_;
  std::string failure_;                          // of a pass; empty: none
  std::optional<c10::Device> device_of_others_;  // of the parameters of other ranks, where this one has none

  /// The rows of a batch on which all ranks agree; makes whatever must exist before any rank may throw. Collective; throws on all ranks alike.
  /// @param targets none: forward()
  int64_t agree_on_rows(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>* targets);
  /// What `pass` returns. If it throws on any rank, it ends on all, and expect_of_use() throws from then on.
  template <class Pass>
  auto in_pass(const Pass& pass) {
    try {
      return revoke_on_exception(comm_, pass);
    } catch (const std::exception& e) {
      failure_ = e.what();
      throw;
    } catch (...) {
      failure_ = "an exception of a type of its own";
      throw;
    }
  }
  void expect_of_use() const;
  /// The name of a part whose mode a pass would not see; empty: there is none.
  std::string part_of_other_mode() const;
  /// A batch, or on a rank without parameters and buffers, such as one that flattens, a copy where those of others are. After agree_on_rows().
  std::vector<at::Tensor> beside_model(std::vector<at::Tensor> batch) const;
  /// This rank's rows of its stage's outputs, for rows `all` of which all ranks agree. Collective.
  std::vector<at::Tensor> pass_forward(const std::vector<at::Tensor>& inputs, Rows all);
  /// The outputs for a batch, without gradients. Collective. @param everywhere false: on the first rank of the last stage alone, and none elsewhere
  std::vector<at::Tensor> outputs_of(const std::vector<at::Tensor>& inputs, bool everywhere);
};

/// By stage, whatever `options` say.
StageRanks ranks_of(const PipelineOptions& options);

/// Checks options, that they fit the communicator, and that ranks agree on them. Collective. @param what more to agree on
/// @throws ContractError on every rank
void expect_fit(const Communicator& comm, const PipelineOptions& options, const std::string& what);

}  // namespace tw::pipeline
