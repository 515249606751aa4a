// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <tw/data_parallel/fully_sharded.hpp>
#include <tw/gradients/bucket_plan.hpp>
#include <vector>

#include "parameter_unit.hpp"

namespace tw {

/// Units of parameters, and what this rank keeps of them: of each its share, the slices of its parameters.
class ParameterSlices {
 public:
  /// @param owner is told before operators take parameters or slices. @param options of FullySharded; both borrowed
  ParameterSlices(const Communicator& comm, MemoryOwner* owner, const FullyShardedOptions& options) : comm_(comm), owner_(owner), options_(options) {}
  ~ParameterSlices();
  ParameterSlices(const ParameterSlices&) = delete;
  ParameterSlices& operator=(const ParameterSlices&) = delete;

  /// Parameters that are equal on all ranks, or without memory, lose it, and are units from now on, one for each bucket. Collective.
  void add(const std::vector<NamedTensor>& parameters, const BucketPlan& plan, const InitialValues* initial);

  size_t units() const noexcept { return units_.size(); }
  ParameterUnit& unit(size_t index) const { return *units_[index]; }
  /// This rank's share of a unit, shape [numel / P], which nobody hears of.
  const at::Tensor& share(size_t unit) const { return shares_[unit].values; }
  /// One copy a node: the unit's values, shape [numel].
  const at::Tensor& whole(size_t unit) const { return shares_[unit].whole; }
  /// Whether `memory` is that of a unit's slices, not of its parameters.
  bool is_slice(const WatchedMemory* memory) const { return memory == shares_[memory->index].watched.get(); }
  /// Whether the owner is told before operators take slices of the unit.
  void watch_slices(size_t unit, bool watched) const;

  /// The slices of parameters that are trained, in their order, of which this rank may have no element.
  const std::vector<NamedTensor>& trained() const noexcept { return trained_; }
  size_t unit_of(size_t trained) const { return pieces_[trained].unit; }
  /// Where a trained slice's elements lie in `share`, which is as large as its unit's.
  at::Tensor slice_in(const at::Tensor& share, size_t trained) const;

  /// What FullySharded says of them.
  std::vector<OptimizedTensor> optimized() const;
  std::vector<NamedShard> shards() const;

 private:
  /// Elements of one parameter that lie in this rank's share of its unit.
  struct Piece {
    size_t unit = 0;
    size_t parameter = 0;  // of the unit
    int64_t begin = 0;     // in the flattened parameter
    int64_t count = 0;     // may be 0
    int64_t offset = 0;    // in the share
  };
  struct Share {
    at::Tensor values;
    std::shared_ptr<WatchedMemory> watched;
    at::Tensor slices;                      // the same memory for whom it does not belong to
    std::vector<at::Tensor> of_parameters;  // views of it, by trained parameter
    at::Tensor whole;
  };

  Piece piece_of(size_t unit, size_t parameter, int64_t offset, int64_t numel, int64_t share) const;
  static void fill(const at::Tensor& place, const NamedTensor& parameter, const Piece& piece, const InitialValues* initial);
  const NamedTensor& parameter_of(const Piece& piece) const { return units_[piece.unit]->parameters()[piece.parameter]; }
  at::Tensor slice_of(const Piece& piece) const;

  const Communicator& comm_;
  MemoryOwner* owner_;
  const FullyShardedOptions& options_;
  std::vector<std::unique_ptr<ParameterUnit>> units_;
  std::vector<Share> shares_;  // by unit
  std::vector<Piece> pieces_;  // of all parameters; those of slices come first
  std::vector<NamedTensor> trained_;
};

}  // namespace tw
