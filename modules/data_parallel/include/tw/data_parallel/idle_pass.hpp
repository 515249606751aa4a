// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/tensor/named_tensor.hpp>
#include <tw/tensor/tensor_snapshot.hpp>
#include <utility>
#include <vector>

namespace tw {

/// The pass of a rank that has no samples while others have some, over any samples of the right shape, which do not count: the rank makes the
/// collective calls that the others' layers make. While it lives, on this thread, a SyncBatchNorm takes no statistics of its input. At its end the
/// buffers are what they were, such as the running statistics of plain batch norms; those that a SyncBatchNorm updated are the same on all ranks and
/// stay.
///
/// ```
/// const IdlePass idle(buffers);
/// (loss_of(model->forward(any_samples)) * 0).backward();
/// ```
/// The caller sees to it that the gradients count nothing: by a factor of 0, or by Reduction::sample_weighted and set_samples(0).
class IdlePass {
 public:
  /// @param buffers of the model
  explicit IdlePass(const std::vector<NamedTensor>& buffers);
  ~IdlePass();
  IdlePass(const IdlePass&) = delete;
  IdlePass& operator=(const IdlePass&) = delete;

  /// Whether this thread is in one.
  static bool in_progress() noexcept;
  /// The value of `buffer` is that of all ranks: it stays.
  static void keep(const at::Tensor& buffer);

 private:
  IdlePass* outer_;
  std::vector<std::pair<at::Tensor, TensorSnapshot>> buffers_;
};

}  // namespace tw
