// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/tensor/named_tensor.hpp>
#include <tw/tensor/tensor_snapshot.hpp>
#include <utility>
#include <vector>

namespace tw {

/// Lets a rank without samples run a pass over any samples of the right shape, which do not count, so that it makes the same collective calls as the
/// other ranks' layers. During its lifetime, SyncBatchNorm ignores its input's statistics on this thread. Destruction restores the buffers, such as
/// the running statistics of plain batch norms. Buffers that a SyncBatchNorm updated are the same on all ranks, and stay.
///
/// ```
/// const IdlePass idle(buffers);
/// (loss_of(model->forward(any_samples)) * 0).backward();
/// ```
/// Gradients that DataParallel and FullySharded get in it on this thread are zero. With Reduction::sample_weighted also call set_samples(0).
class IdlePass {
 public:
  /// @param buffers the model's buffers
  explicit IdlePass(const std::vector<NamedTensor>& buffers);
  ~IdlePass();
  IdlePass(const IdlePass&) = delete;
  IdlePass& operator=(const IdlePass&) = delete;

  /// Whether an IdlePass exists on this thread.
  static bool in_progress() noexcept;
  /// Excludes `buffer` from the restoration: its value is the same on all ranks.
  static void keep(const at::Tensor& buffer);

 private:
  IdlePass* outer_;
  std::vector<std::pair<at::Tensor, TensorSnapshot>> buffers_;
};

}  // namespace tw
