// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/data/dataset.hpp>

namespace tw {

struct TensorDatasetOptions {
  /// Name of the data in messages, such as the path of their file.
  std::string name = "the data";
  /// Whether to accept NaN and infinity, which are errors otherwise.
  bool allow_non_finite = false;
};

/// Samples held in memory as two tensors. Batches have the tensors' dtypes and row shapes.
class TensorDataset : public Dataset {
 public:
  /// @param inputs [n, ...] and @param targets [n] or [n, ...], of any dtype, on the CPU. Contiguous tensors are shared, not copied: do not change
  /// them.
  /// @throws ContractError if a tensor is undefined or not on the CPU, or the shapes do not match. @throws Error naming the data and the first row
  /// that holds NaN or infinity, unless allow_non_finite is set.
  TensorDataset(at::Tensor inputs, at::Tensor targets, const TensorDatasetOptions& options = {});

  int64_t size() const override { return inputs_.size(0); }
  Batch batch(std::span<const int64_t> indices) const override;
  std::vector<at::Tensor> memory() const override { return {inputs_, targets_}; }

  /// The inputs of all samples, [n, ...]; targets() has their targets.
  const at::Tensor& inputs() const noexcept { return inputs_; }
  const at::Tensor& targets() const noexcept { return targets_; }

 private:
  at::Tensor inputs_;
  at::Tensor targets_;
};

}  // namespace tw
