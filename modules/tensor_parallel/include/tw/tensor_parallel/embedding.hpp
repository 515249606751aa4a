// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/pimpl.h>

#include <optional>
#include <tw/tensor_parallel/split_module.hpp>

namespace tw::tensor_parallel {

struct VocabParallelEmbeddingOptions {
  /// An index whose row begins as zeros and gets no gradient, as of torch::nn::Embedding; none by default.
  std::optional<int64_t> padding_idx = {};
};

/// A table of vectors whose rows, the vocabulary, are split over the `tensor` axis. Each rank looks up the indices that it has, others return zeros,
/// and one all-reduce sums them; the backward pass does not communicate. Initial values and gradients are those of torch::nn::Embedding, as with the
/// linear layers: see <tw/tensor_parallel/linear.hpp>. Of n rows, rank r of P has those from n r / P to n (r + 1) / P, rounded down.
/// Ref: Shoeybi et al. 2019, Megatron-LM, section 3.
class VocabParallelEmbeddingImpl : public SplitModule {
 public:
  /// Collective. @param comm of the `tensor` axis; borrowed. @param num_embeddings the size of the vocabulary, at least 1; ranks may be left without
  /// rows. @param embedding_dim the size of a vector, at least 1.
  /// @throws ContractError on every rank, naming ranks, when sizes, options or drawn values differ; naming sizes below 1 and a `padding_idx` beyond
  ///         the vocabulary.
  VocabParallelEmbeddingImpl(const Communicator& comm, int64_t num_embeddings, int64_t embedding_dim,
                             const VocabParallelEmbeddingOptions& options = {});

  /// Collective. @param indices replicated, of any shape; int64 or int32. @return [indices..., embedding_dim], replicated.
  /// @throws ContractError on every rank, naming the value, for an index outside of the vocabulary. (On an accelerator such an index ends the
  ///         program by the device's own assertion, so that the host need not wait.)
  torch::Tensor forward(const torch::Tensor& indices);

  torch::Tensor weight;  ///< this rank's rows, [num_embeddings / P, embedding_dim]

 private:
  torch::Tensor own_rows(const torch::Tensor& indices, const torch::Tensor& mine) const;
  torch::Tensor all_rows(const torch::Tensor& indices, const torch::Tensor& mine) const;

  int64_t num_embeddings_;
  int64_t begin_ = 0;  ///< this rank's rows
  int64_t end_ = 0;
  int64_t padding_row_ = -1;  ///< in `weight`; -1 where it is another rank's
};
TORCH_MODULE(VocabParallelEmbedding);

}  // namespace tw::tensor_parallel
