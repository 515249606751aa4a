// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <tw/gradients/reducer.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

#include "ties.hpp"

namespace tw::pipeline {

/// The gradients of a rank's parameters, and those of whoever has the same ones: replicas, and for tied parameters other stages.
///
/// Passes add to `.grad()` on each rank by itself; reduce() makes it the sum. What is reduced already counts, in later runs, as the share of one
/// rank: begin() drops it on the others.
class StageGradients {
 public:
  /// Collective over `comm`, which is borrowed. Makes values equal: those of replica 0, of tied parameters those of the first stage that has them.
  /// @param module the stage's parameters and buffers
  StageGradients(const Communicator& comm, const StageRanks& ranks, const StageModel& model, Sharding sharding);

  const Communicator& replicas() const noexcept { return replicas_; }
  /// Those that are trained, each once. Of sharded ones, the reducer has all; otherwise those that are not tied.
  const std::vector<NamedTensor>& parameters() const noexcept { return trained_; }
  const std::vector<Tie>& ties() const noexcept { return ties_; }
  /// Whether the next reduce() needs a reducer that does not exist, or not for these dtypes.
  bool needs_preparation() const;
  /// Makes it. Collective over the stage, and no other stage may throw meanwhile: it makes communicators, whose making cannot be ended.
  void prepare();
  /// Made where it does not exist; collective over the stage then.
  Reducer& reducer();

  /// Before the first backward pass of a run.
  void begin();
  /// After the last one. Collective over `comm`.
  void reduce();
  /// See Pipeline::clip_grad_norm().
  double clip(double max_norm);

  /// Replicas' buffers before a run, unless an earlier run's are to be averaged still. @param mine rows of the run on this replica. @param all on all
  /// replicas
  void remember_buffers(int64_t mine, int64_t all);
  /// Makes buffers that changed since then equal on all replicas: the mean by rows, of integers the greatest. Collective over the stage.
  void average_buffers();

 private:
  /// Tied parameters of the same stages.
  struct TiedGroup {
    std::vector<at::Tensor> parameters;  // this rank's, in the order of ties; none: it has no part in them
    Communicator comm;                   // all ranks of those stages, or those of none
    bool is_first = false;               // this rank keeps what is reduced
    bool is_on_first_stage = false;      // of those
  };

  bool is_tied(const at::Tensor& parameter) const;
  /// Whether this stage counts the elements of a tied parameter, in a norm for example.
  bool counts_tied(const at::Tensor& parameter) const;
  ModelPartsList parts() const;
  void reduce_replicas();
  void reduce_tied();

  const Communicator& comm_;
  std::optional<Communicator> optimizing_;  // of sharded gradients: the ranks of stages that have some
  std::vector<Tie> ties_;
  Communicator replicas_;
  Sharding sharding_;
  std::vector<NamedTensor> trained_;
  std::vector<NamedTensor> reduced_by_replicas_;  // of `trained_`
  std::vector<TiedGroup> groups_;
  ModelPartsList split_layers_;  // of this stage
  std::unique_ptr<Reducer> reducer_;
  std::vector<at::Tensor> buffers_;
  std::vector<at::Tensor> buffers_before_;
  int64_t rows_ = 0;  // on this replica, since then
  int64_t rows_of_all_ = 0;
  bool reduced_ = false;  // what `.grad()` holds
};

}  // namespace tw::pipeline
