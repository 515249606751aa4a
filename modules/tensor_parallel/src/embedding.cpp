// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor_parallel/embedding.hpp>

#include <ATen/ops/_assert_async.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>
#include <torch/nn/modules/embedding.h>

#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/tensor/on_cpu.hpp>
#include <tw/tensor/tensor_spec.hpp>
#include <tw/tensor_parallel/operations.hpp>

#include "initial_values.hpp"
#include "operators.hpp"
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

// Looks up only this rank's indices.
torch::Tensor own_rows(const torch::Tensor& weight, const torch::Tensor& indices, const torch::Tensor& mine, int64_t begin, int64_t padding_row) {
  const torch::Tensor places = mine.nonzero().squeeze(-1);
  const torch::Tensor rows = at::embedding(weight, indices.index_select(0, places) - begin, padding_row);
  return at::zeros({indices.numel(), weight.size(1)}, weight.options()).index_copy(0, places, rows);
}

// Only the device knows how many indices belong to this rank. Therefore all are looked up. The results for indices of other ranks are set to zero.
torch::Tensor all_rows(const torch::Tensor& weight, const torch::Tensor& indices, const torch::Tensor& mine, int64_t begin, int64_t padding_row) {
  if (weight.size(0) == 0) return at::zeros({indices.numel(), weight.size(1)}, weight.options()) + 0 * weight.sum();
  const torch::Tensor rows = at::embedding(weight, (indices - begin).masked_fill(mine.logical_not(), 0), padding_row);
  return rows.masked_fill(mine.logical_not().unsqueeze(1), 0);
}

/// An operator, because a graph cannot contain what it reads from the indices: whether they are in the vocabulary, and how many belong to this rank.
/// Autograd sees the operators inside. @param weight this rank's rows, the first of which is row `begin` of the vocabulary @return zeros for indices
/// of other ranks
torch::Tensor look_up(const torch::Tensor& weight, const torch::Tensor& indices, int64_t begin, int64_t padding_row, int64_t vocabulary) {
  if (!indices.is_meta()) expect_in_vocabulary(indices, vocabulary);
  const torch::Tensor flat = indices.reshape({-1});
  const torch::Tensor mine = (flat >= begin) & (flat < begin + weight.size(0));
  const auto rows_of = indices.is_cpu() ? own_rows : all_rows;
  std::vector<int64_t> shape = indices.sizes().vec();
  shape.push_back(weight.size(1));
  return rows_of(weight, flat, mine, begin, padding_row).view(shape);
}

}  // namespace

void define_lookup(torch::Library& library) {
  library.def("vocabulary_rows(Tensor weight, Tensor indices, int begin, int padding_row, int vocabulary) -> Tensor");
  library.impl("vocabulary_rows", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, &look_up));
  library.impl("vocabulary_rows", torch::dispatch(c10::DispatchKey::Autograd, &look_up));
}

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
  if (padding && *padding >= rows.begin && *padding < rows.end) padding_row_ = *padding - begin_;
}

torch::Tensor VocabParallelEmbeddingImpl::forward(const torch::Tensor& indices) {
  static const auto look_up_rows = operator_of<decltype(look_up)>("vocabulary_rows");
  return reduce_from_ranks(comm(), look_up_rows.call(weight, indices, begin_, padding_row_, num_embeddings_));
}

}  // namespace tw::tensor_parallel
