// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ranks.hpp"

namespace tw::train {

/// The ranks that make each update together, where not all ranks do: ReplicaOptions::ranks_per_group consecutive ranks along `data`, with those that
/// hold a model together with them.
class ReplicaGroup {
 public:
  /// Collective. @param ranks must outlive this object @param ranks_per_group divides the number of ranks along `data`
  ReplicaGroup(const Ranks& ranks, int64_t ranks_per_group);

  /// The number of groups.
  int count() const noexcept { return count_; }

  // Communicators; null: this rank alone.

  /// Ranks of the group with the same elements of the model and different samples.
  const Communicator* data() const noexcept { return data_ ? &*data_ : nullptr; }
  /// Ranks of the group that hold the same part of the model and train on different samples: their gradients are summed.
  const Communicator* samples() const noexcept { return samples_ ? &*samples_ : ranks_.shard; }
  const Communicator* all() const noexcept { return all_ ? &*all_ : ranks_.replica; }

 private:
  const Ranks& ranks_;
  int count_;
  // None: one rank along `data` is a group.
  std::optional<Communicator> data_;
  std::optional<Communicator> samples_;
  std::optional<Communicator> all_;
};

}  // namespace tw::train
