// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/gradients/reducer.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

#include "ties.hpp"

namespace tw::pipeline {

/// Gradients of a rank's parameters, reduced over all ranks with the same parameters: replicas, and other devices of the schedule for tied
/// parameters.
///
/// Passes add to `.grad()` on each rank separately; reduce() replaces it by the sum. In later runs, a reduced gradient counts only on one rank:
/// begin() drops it on the others.
class StageGradients {
 public:
  /// Collective over `comm`, which is kept by reference. @param model the rank's parameters and buffers; borrowed
  StageGradients(const Communicator& comm, const StageRanks& ranks, const StageModel& model);

  /// Sets all values to those of replica 0, and values of tied parameters to those of the first device that has them. Collective over `comm`.
  void make_parameters_equal() const;

  /// The trained parameters, each once.
  const std::vector<NamedTensor>& parameters() const noexcept { return trained_; }
  const std::vector<Tie>& ties() const noexcept { return ties_; }
  /// Whether the next reduce() needs a reducer that does not exist yet, or that was made for other dtypes.
  bool needs_preparation() const;
  /// Makes the reducer. Collective over the replicas. No other rank may throw meanwhile, because creating communicators cannot be interrupted.
  void prepare();

  /// Call before the first backward pass of a run.
  void begin();
  /// Call after the last backward pass. Collective over `comm`.
  void reduce();
  /// See Pipeline::clip_grad_norm().
  double clip(double max_norm);

  /// Saves the replicas' buffers before a run.
  void remember_buffers();
  /// Makes buffers that have changed since then equal on all replicas: the mean weighted by rows, or the maximum for integers. Collective over the
  /// replicas. @param share of this replica in the rows of the run
  void average_buffers(double share);

 private:
  /// Parameters that are tied between the same devices.
  struct TiedGroup {
    std::vector<at::Tensor> all;         // this rank's parameters, in the order of ties; none: not on this rank
    std::vector<at::Tensor> parameters;  // those that are trained
    Communicator comm;                   // all ranks of these devices; on other ranks, all ranks outside them
    bool is_first = false;               // this rank keeps the reduced gradients
    bool is_on_first_device = false;     // this rank is on the first of those devices
  };

  bool is_tied(const at::Tensor& parameter) const;
  /// Whether this device counts the elements of a tied parameter, for example in a norm.
  bool counts_tied(const at::Tensor& parameter) const;
  void reduce_replicas();
  void reduce_tied();

  const Communicator& comm_;
  const StageModel& model_;
  std::vector<Tie> ties_;
  Communicator replicas_;
  std::vector<NamedTensor> trained_;
  std::vector<NamedTensor> reduced_by_replicas_;  // subset of `trained_`
  std::vector<TiedGroup> groups_;
  ModelPartsList split_layers_;      // split layers of this rank
  std::vector<std::string> sparse_;  // names of parameters with sparse gradients
  std::unique_ptr<Reducer> reducer_;
  std::vector<at::Tensor> buffers_;
  std::vector<at::Tensor> buffers_before_;
  bool reduced_ = false;  // whether `.grad()` holds reduced gradients
};

}  // namespace tw::pipeline
