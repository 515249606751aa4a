// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/tensor/named_tensor.hpp>
#include <tw/tensor/tensor_snapshot.hpp>
#include <utility>
#include <vector>

namespace tw {

/// Lets a rank without samples run a pass over any samples of the right shape, so that the rank makes the same collective calls in its layers as the
/// other ranks. These samples do not count: while an IdlePass exists, a SyncBatchNorm on this thread leaves this rank's input out of its statistics.
/// The destructor restores the buffers, such as the running statistics of plain batch norms. It does not restore buffers that a SyncBatchNorm
/// updated, which are the same on all ranks.
///
/// ```
/// const IdlePass idle(buffers);
/// (loss_of(model->forward(any_samples)) * 0).backward();
/// ```
/// While an IdlePass exists, gradients that DataParallel and FullySharded receive on this thread become zero. With Reduction::sample_weighted, also
/// call set_samples(0).
class IdlePass {
 public:
  /// @param buffers the model's buffers
  explicit IdlePass(const std::vector<NamedTensor>& buffers);
  ~IdlePass();
  IdlePass(const IdlePass&) = delete;
  IdlePass& operator=(const IdlePass&) = delete;

  /// Whether an IdlePass exists on this thread.
  static bool in_progress() noexcept;
  /// Excludes `buffer` from the buffers that the IdlePasses of this thread restore: its value is the same on all ranks.
  static void keep(const at::Tensor& buffer);

 private:
  IdlePass* outer_;
  std::vector<std::pair<at::Tensor, TensorSnapshot>> buffers_;
};

}  // namespace tw
