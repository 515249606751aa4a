// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/tensor/named_tensor.hpp>
#include <tw/tensor/tensor_snapshot.hpp>
#include <utility>
#include <vector>

namespace tw {

/// Lets a rank without samples run a pass over any samples of the right shape, so that its layers make the same collective calls as on the other
/// ranks. These samples do not count. During its lifetime, SyncBatchNorm ignores its input's statistics on this thread. Destruction restores the
/// buffers, such as the running statistics of plain batch norms. Buffers that a SyncBatchNorm updated are the same on all ranks, and are not
/// restored.
///
/// ```
/// const IdlePass idle(buffers);
/// (loss_of(model->forward(any_samples)) * 0).backward();
/// ```
/// During its lifetime, gradients that DataParallel and FullySharded receive on this thread become zero. With Reduction::sample_weighted, also call
/// set_samples(0).
class IdlePass {
 public:
  /// @param buffers the model's buffers
  explicit IdlePass(const std::vector<NamedTensor>& buffers);
  ~IdlePass();
  IdlePass(const IdlePass&) = delete;
  IdlePass& operator=(const IdlePass&) = delete;

  /// Whether an IdlePass exists on this thread.
  static bool in_progress() noexcept;
  /// Makes the passes in progress on this thread not restore `buffer`: its value is the same on all ranks.
  static void keep(const at::Tensor& buffer);

 private:
  IdlePass* outer_;
  std::vector<std::pair<at::Tensor, TensorSnapshot>> buffers_;
};

}  // namespace tw
