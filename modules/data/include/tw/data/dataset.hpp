// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tw {

/// Some samples and what they should lead to.
struct Batch {
  at::Tensor inputs;   ///< [n, ...]
  at::Tensor targets;  ///< [n] or [n, ...]

  int64_t size() const { return inputs.size(0); }
};

/// Samples that can be asked for by number.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// How many samples there are, numbered from 0.
  virtual int64_t size() const = 0;
  /// The samples `indices`, in that order; may be none, and may repeat. Called from several threads at once.
  /// @throws ContractError for an index that is not below size(); Error for data that cannot be used.
  virtual Batch batch(std::span<const int64_t> indices) const = 0;
  /// The tensors that hold all samples, where they lie in memory; empty: they do not, or nobody knows. By their content a resumed run recognises
  /// data.
  virtual std::vector<at::Tensor> memory() const { return {}; }

 protected:
  Dataset() = default;
  Dataset(const Dataset&) = default;
  Dataset(Dataset&&) = default;
  Dataset& operator=(const Dataset&) = default;
  Dataset& operator=(Dataset&&) = default;
};

/// Which part of a data set.
enum class Split { train, test };

}  // namespace tw
