// SPDX-License-Identifier: Apache-2.0
#pragma once
// Batch normalisation over the samples of all ranks. <tw/data_parallel.hpp> leaves this header out, because this header includes much of LibTorch.
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <tw/gradients/reduction.hpp>
#include <tw/mpi/communicator.hpp>

namespace torch::nn {
class SequentialImpl;
}

namespace tw {

/// torch::nn::BatchNorm1d, 2d and 3d for a batch that is divided among ranks: mean and variance are over the samples of all ranks. A rank may have
/// any number of samples, or none. Parameters, buffers, options and evaluation are as in torch::nn::BatchNorm, with the same names. All ranks keep
/// the same running statistics, bit for bit.
///
/// Gradients. The backward pass of rank r begins with its own loss L_r, and DataParallel computes the gradients of L = sum_r(w_r * L_r). For P ranks,
/// w_r is 1 for Reduction::sum, 1 / P for mean, and n_r / n for sample_weighted. With this layer, L_r depends on the samples of all ranks. So the
/// layer computes (1 / w_r) * dL/dx_r as the gradient of its input, and the gradients of L_r alone for its weight and bias. From these, DataParallel
/// computes the gradient of L, as in one process with the whole batch. With g_i = w_r * dL_r/dy_i for sample i of rank r, N values per channel over
/// all ranks, and s = weight / sqrt(variance + eps):
///
///     dL/dx_i = s * (g_i - sum_j(g_j) / N - x^_i * sum_j(g_j * x^_j) / N),    x^_i = (x_i - mean) / sqrt(variance + eps)
///
/// For sum and mean, the w_r cancel, so a layer made for one of them works with the other. For sample_weighted, n_r is the size of the input's first
/// dimension; pass n_r, or n_r times a factor that is the same on all ranks, to DataParallel::set_samples(). The forward pass throws if a
/// DataParallel or FullySharded reduces the weight's gradient by sample_weighted, but this layer is for sum or mean, or vice versa. The Trainer
/// weights losses itself and sums gradients: use Reduction::sum there (the Trainer refuses sample_weighted).
///
/// In training mode, and if no running statistics are kept, the forward pass is collective. For C channels, it makes an all-gather of 2 * C + 1
/// float64 per rank and an all-reduce of one. The backward pass is collective, too, if the input requires a gradient: an all-reduce of 2 * C float64.
/// Ranks without samples must take part, with an input of no rows or in an IdlePass. The layer cannot be differentiated twice. Ref: Ioffe & Szegedy
/// 2015; Chan et al. 1979 for combining the ranks' means and variances.
class SyncBatchNormImpl : public torch::nn::NormImplBase<1, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  /// @param comm the ranks that divide the batch; not duplicated. @param options as for torch::nn::BatchNorm; the number of features is enough.
  /// @param reduction the reduction of the DataParallel that reduces the gradients.
  SyncBatchNormImpl(const Communicator& comm, const torch::nn::BatchNormOptions& options, Reduction reduction);

  /// Replaces `norm`, a torch::nn::BatchNorm: uses the same parameters, not copies, and shares the memory of its buffers.
  template <size_t D, class Derived>
  SyncBatchNormImpl(const Communicator& comm, const torch::nn::NormImplBase<D, Derived, torch::nn::BatchNormOptions>& norm, Reduction reduction)
      : SyncBatchNormImpl(comm, norm.options, reduction) {
    take_over(norm, norm.weight, norm.bias, {norm.running_mean, norm.running_var, norm.num_batches_tracked});
  }

  /// @param input [N, C, ...], float32 or float64; N may differ between ranks, and be 0. @return the same shape.
  /// @throws ContractError for other inputs, and on every rank if all ranks together have fewer than 2 values per channel for the statistics.
  torch::Tensor forward(const torch::Tensor& input);

  Reduction reduction() const noexcept { return reduction_; }
  /// The ranks that divide the batch.
  const Communicator& comm() const noexcept { return *comm_; }

  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(const torch::Tensor& input) override;

 private:
  struct Buffers {
    torch::Tensor running_mean;
    torch::Tensor running_var;
    torch::Tensor num_batches_tracked;
  };
  void take_over(const torch::nn::Module& norm, const torch::Tensor& its_weight, const torch::Tensor& its_bias, const Buffers& buffers);
  void expect_own_reduction() const;
  void update_running_statistics(const torch::Tensor& mean, const torch::Tensor& unbiased_variance);

  std::shared_ptr<const Communicator> comm_;  // clones share it
  Reduction reduction_;
};
TORCH_MODULE(SyncBatchNorm);

/// Replaces each torch::nn::BatchNorm1d, 2d and 3d in `net`, and in modules derived from Sequential inside it, by a SyncBatchNorm. Names and
/// parameters stay, so optimizers remain valid. Batch norms inside other modules cannot be replaced, because these hold their children in data
/// members. Not collective.
/// @param comm, reduction as for SyncBatchNorm. @return the number of replaced modules.
/// @throws ContractError naming a batch normalisation inside another module; nothing is replaced then.
int64_t synchronize_batch_norms(torch::nn::SequentialImpl& net, const Communicator& comm, Reduction reduction);

}  // namespace tw
