// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <tw/data_parallel/fully_sharded.hpp>
#include <tw/gradients/bucket_plan.hpp>
#include <vector>

#include "parameter_unit.hpp"

namespace tw {

/// Units of parameters. Of each unit this rank keeps its share: slices of the unit's parameters.
class ParameterSlices {
 public:
  /// @param owner called before operators use parameters or slices; borrowed. @param options of FullySharded; borrowed
  ParameterSlices(const Communicator& comm, MemoryOwner* owner, const FullyShardedOptions& options) : comm_(comm), owner_(owner), options_(options) {}
  ~ParameterSlices();
  ParameterSlices(const ParameterSlices&) = delete;
  ParameterSlices& operator=(const ParameterSlices&) = delete;

  /// Turns `parameters` into units, one for each bucket, and frees their memory. @param parameters equal on all ranks, or without memory. Collective.
  void add(const std::vector<NamedTensor>& parameters, const BucketPlan& plan, const InitialValues* initial);

  size_t units() const noexcept { return units_.size(); }
  ParameterUnit& unit(size_t index) const { return *units_[index]; }
  /// This rank's share of a unit, shape [numel / P], unwatched.
  const at::Tensor& share(size_t unit) const { return shares_[unit].values; }
  /// With one copy per node: all values of the unit, shape [numel].
  const at::Tensor& whole(size_t unit) const { return shares_[unit].whole; }
  /// Whether `memory` belongs to a unit's slices rather than to its parameters.
  bool is_slice(const WatchedMemory* memory) const { return memory == shares_[memory->index].watched.get(); }
  /// Sets whether the owner is called before operators use slices of the unit.
  void watch_slices(size_t unit, bool watched) const;

  /// Slices of the parameters that require a gradient, in order; may be empty tensors.
  const std::vector<NamedTensor>& trained() const noexcept { return trained_; }
  size_t unit_of(size_t trained) const { return pieces_[trained].unit; }
  /// @throws ContractError naming a trained slice whose memory was replaced
  void expect_in_place() const;
  /// The elements of a trained slice within `share`, a tensor as large as the unit's share.
  at::Tensor slice_in(const at::Tensor& share, size_t trained) const;

  /// For FullySharded::optimized() and shards().
  std::vector<OptimizedTensor> optimized() const;
  std::vector<NamedShard> shards() const;

 private:
  /// The elements of one parameter that lie in this rank's share of its unit.
  struct Piece {
    size_t unit = 0;
    size_t parameter = 0;  // index in the unit
    int64_t begin = 0;     // in the flattened parameter
    int64_t count = 0;     // may be 0
    int64_t offset = 0;    // in the share
  };
  struct Share {
    at::Tensor values;
    std::shared_ptr<WatchedMemory> watched;
    at::Tensor slices;                      // the same memory, watched: for users
    std::vector<at::Tensor> of_parameters;  // views of `slices`, by trained parameter
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
  std::vector<Piece> pieces_;  // of all parameters; trained ones first
  std::vector<NamedTensor> trained_;
};

}  // namespace tw
