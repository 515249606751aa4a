// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor_parallel/embedding.hpp>

#include <ATen/ops/_assert_async.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/embedding.h>

#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/tensor/on_cpu.hpp>
#include <tw/tensor/tensor_spec.hpp>
#include <tw/tensor_parallel/operations.hpp>

#include "initial_values.hpp"
#include "part.hpp"

namespace tw::tensor_parallel {
namespace {

// Checks all indices, not only this rank's, so that all ranks throw alike. On a device the host does not wait for the result: an assertion on the
// device ends the program.
void expect_in_vocabulary(const torch::Tensor& indices, int64_t vocabulary) {
  TW_EXPECTS(indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt, "indices must be int64 or int32, got ",
             dtype_name(indices.scalar_type()));
  if (indices.numel() == 0) return;
  if (is_on_accelerator(indices)) {
    at::_assert_async(((indices >= 0) & (indices < vocabulary)).all(), "an index is outside of the vocabulary");
    return;
  }
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

// Looks up only this rank's indices.
torch::Tensor VocabParallelEmbeddingImpl::own_rows(const torch::Tensor& indices, const torch::Tensor& mine) const {
  const torch::Tensor places = mine.nonzero().squeeze(-1);
  const torch::Tensor rows = at::embedding(weight, indices.index_select(0, places) - begin_, padding_row_);
  return at::zeros({indices.numel(), weight.size(1)}, weight.options()).index_copy(0, places, rows);
}

// Only the device knows how many indices belong to this rank. Therefore all are looked up. The results for indices of other ranks are set to zero.
torch::Tensor VocabParallelEmbeddingImpl::all_rows(const torch::Tensor& indices, const torch::Tensor& mine) const {
  if (begin_ == end_) return at::zeros({indices.numel(), weight.size(1)}, weight.options()) + 0 * weight.sum();
  const torch::Tensor rows = at::embedding(weight, (indices - begin_).masked_fill(mine.logical_not(), 0), padding_row_);
  return rows.masked_fill(mine.logical_not().unsqueeze(1), 0);
}

torch::Tensor VocabParallelEmbeddingImpl::forward(const torch::Tensor& indices) {
  expect_in_vocabulary(indices, num_embeddings_);
  const torch::Tensor flat = indices.reshape({-1});
  const torch::Tensor mine = (flat >= begin_) & (flat < end_);
  const torch::Tensor partial = is_on_accelerator(indices) ? all_rows(flat, mine) : own_rows(flat, mine);
  std::vector<int64_t> shape = indices.sizes().vec();
  shape.push_back(weight.size(1));
  return reduce_from_ranks(comm(), partial.view(shape));
}

}  // namespace tw::tensor_parallel
