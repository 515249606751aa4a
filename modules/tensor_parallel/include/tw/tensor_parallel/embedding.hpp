// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/pimpl.h>

#include <optional>
#include <tw/tensor_parallel/split_module.hpp>

namespace tw::tensor_parallel {

struct VocabParallelEmbeddingOptions {
  /// Index whose row is initially zero and gets no gradient, as in torch::nn::Embedding; none by default.
  std::optional<int64_t> padding_idx = {};
};

/// An embedding whose rows (the vocabulary) are split over the mesh axis `tensor`. Each rank looks up the indices of its own rows and uses zeros for
/// all others; then one all-reduce sums the results. The backward pass does not communicate. Initial values and gradients equal those of
/// torch::nn::Embedding, under the conditions in <tw/tensor_parallel/linear.hpp>. Of n rows, rank r of P holds n * r / P to n * (r + 1) / P - 1, with
/// quotients rounded down. Ref: Shoeybi et al. 2019, Megatron-LM, section 3.
class VocabParallelEmbeddingImpl : public SplitModule {
 public:
  /// Collective. @param comm the axis `tensor`; shared, not duplicated. @param num_embeddings the size of the vocabulary, at least 1; if it is below
  /// P, some ranks have no rows. @param embedding_dim the size of a vector, at least 1.
  /// @throws ContractError on every rank, naming ranks, if sizes, options or drawn values differ between ranks; also for a size below 1, or a
  /// `padding_idx` outside the vocabulary.
  VocabParallelEmbeddingImpl(const Communicator& comm, int64_t num_embeddings, int64_t embedding_dim,
                             const VocabParallelEmbeddingOptions& options = {});

  /// Collective. @param indices replicated, of any shape; int64 or int32. @return [indices..., embedding_dim], replicated.
  /// @throws ContractError on every rank, naming the value, for an index outside the vocabulary. (On an accelerator, a device assertion ends the
  /// program instead, so that the host need not wait.)
  torch::Tensor forward(const torch::Tensor& indices);

  torch::Tensor weight;  ///< this rank's rows, [num_embeddings / P, embedding_dim]

 private:
  int64_t num_embeddings_;
  int64_t begin_ = 0;         ///< first of this rank's rows
  int64_t padding_row_ = -1;  ///< index of the padding row in `weight`; -1 if this rank does not hold it
};
TORCH_MODULE(VocabParallelEmbedding);

}  // namespace tw::tensor_parallel
