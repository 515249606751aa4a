// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor_parallel/embedding.hpp>

#include <ATen/ops/aminmax.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/embedding.h>

#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/tensor/tensor_spec.hpp>
#include <tw/tensor_parallel/operations.hpp>

#include "initial_values.hpp"
#include "part.hpp"

namespace tw::tensor_parallel {
namespace {

// All indices, not only this rank's: every rank sees the same, so all throw.
void expect_in_vocabulary(const torch::Tensor& indices, int64_t vocabulary) {
  TW_EXPECTS(indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt, "indices must be int64 or int32, got ",
             dtype_name(indices.scalar_type()));
  if (indices.numel() == 0) return;
  const auto [least, greatest] = at::aminmax(indices);
  const int64_t low = least.item<int64_t>();
  const int64_t high = greatest.item<int64_t>();
  TW_EXPECTS(low >= 0 && high < vocabulary, "index ", low < 0 ? low : high, " is outside of the vocabulary of ", vocabulary);
}

}  // namespace

VocabParallelEmbeddingImpl::VocabParallelEmbeddingImpl(const Communicator& comm, int64_t num_embeddings, int64_t embedding_dim,
                                                       const VocabParallelEmbeddingOptions& options)
    : SplitModule(comm), num_embeddings_(num_embeddings) {
  const std::optional<int64_t> padding = options.padding_idx;
  const std::string layer =
      concat("VocabParallelEmbedding(", num_embeddings, ", ", embedding_dim, padding ? concat(", padding_idx ", *padding) : "", ")");
  expect_same_on_all_ranks(comm, "the sizes and options of a tensor-parallel layer", {layer});
  TW_EXPECTS(num_embeddings > 0 && embedding_dim > 0, layer, " needs sizes of at least 1");
  TW_EXPECTS(!padding || (*padding >= 0 && *padding < num_embeddings), layer, " needs a padding_idx within the vocabulary");

  const torch::nn::Embedding whole(torch::nn::EmbeddingOptions(num_embeddings, embedding_dim).padding_idx(padding));
  expect_same_initial_values(comm, layer, *whole);
  weight = register_slice("weight", whole->weight, 0);
  const auto rows = own_part(comm, num_embeddings);
  begin_ = rows.begin;
  end_ = rows.end;
  if (padding && *padding >= begin_ && *padding < end_) padding_row_ = *padding - begin_;
}

torch::Tensor VocabParallelEmbeddingImpl::forward(const torch::Tensor& indices) {
  expect_in_vocabulary(indices, num_embeddings_);
  const torch::Tensor flat = indices.reshape({-1});
  const torch::Tensor places = ((flat >= begin_) & (flat < end_)).nonzero().squeeze(-1);  // of the indices that are this rank's
  const torch::Tensor rows = at::embedding(weight, flat.index_select(0, places) - begin_, padding_row_);
  const torch::Tensor partial = at::zeros({flat.numel(), weight.size(1)}, weight.options()).index_copy(0, places, rows);
  std::vector<int64_t> shape = indices.sizes().vec();
  shape.push_back(weight.size(1));
  return reduce_from_ranks(comm(), partial.view(shape));
}

}  // namespace tw::tensor_parallel
