// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tw {

/// Some samples and their targets.
struct Batch {
  at::Tensor inputs;   ///< [n, ...]
  at::Tensor targets;  ///< [n] or [n, ...]

  int64_t size() const { return inputs.size(0); }
};

/// Samples, accessed by index.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Number of samples; their indices begin at 0.
  virtual int64_t size() const = 0;
  /// Returns the samples with these indices, in that order. `indices` may be empty or have repetitions. Several threads may call it at once.
  /// @throws ContractError for an index outside [0, size()); Error for unusable data.
  virtual Batch batch(std::span<const int64_t> indices) const = 0;
  /// The tensors that hold all samples, if they are in memory; otherwise empty. A resumed run compares their content to check that the data are the
  /// same.
  virtual std::vector<at::Tensor> memory() const { return {}; }

 protected:
  Dataset() = default;
  Dataset(const Dataset&) = default;
  Dataset(Dataset&&) = default;
  Dataset& operator=(const Dataset&) = default;
  Dataset& operator=(Dataset&&) = default;
};

/// Part of a data set.
enum class Split { train, test };

}  // namespace tw
