// SPDX-License-Identifier: Apache-2.0
#include "finite.hpp"

#include <ATen/ops/empty.h>

#include <cstring>
#include <tw/base/contract.hpp>
#include <tw/data/tensor_dataset.hpp>

namespace tw {
namespace {

void expect_finite(const at::Tensor& tensor, const char* what, const std::string& name) {
  const int64_t rows = tensor.size(0);
  if (tensor.numel() == 0) return;
  const int64_t row = first_non_finite_row(tensor.const_data_ptr(), rows, tensor.numel() / rows, tensor.scalar_type());
  if (row >= 0) throw Error(concat(name, ": the ", what, " of row ", row, " hold NaN or infinity"));
}

at::Tensor gather(const at::Tensor& from, std::span<const int64_t> indices) {
  std::vector<int64_t> shape = from.sizes().vec();
  const int64_t rows = shape[0];
  shape[0] = static_cast<int64_t>(indices.size());
  at::Tensor out = at::empty(shape, from.options());
  if (rows == 0) return out;
  const size_t row_bytes = from.nbytes() / static_cast<size_t>(rows);
  const auto* source = static_cast<const char*>(from.const_data_ptr());
  auto* to = static_cast<char*>(out.data_ptr());
  for (const int64_t row : indices) {
    if (row_bytes > 0) std::memcpy(to, source + static_cast<size_t>(row) * row_bytes, row_bytes);
    to += row_bytes;
  }
  return out;
}

}  // namespace

TensorDataset::TensorDataset(at::Tensor inputs, at::Tensor targets, const TensorDatasetOptions& options)
    : inputs_(std::move(inputs)), targets_(std::move(targets)) {
  TW_EXPECTS(inputs_.defined() && targets_.defined(), options.name, ": inputs and targets must both be defined");
  TW_EXPECTS(inputs_.is_cpu() && targets_.is_cpu(), options.name, ": inputs and targets must be CPU tensors");
  TW_EXPECTS(inputs_.dim() > 0 && targets_.dim() > 0, options.name, ": inputs and targets need a first dimension that counts samples");
  TW_EXPECTS(inputs_.size(0) == targets_.size(0), options.name, ": inputs and targets must have the same number of samples, got ", inputs_.size(0),
             " inputs and ", targets_.size(0), " targets");
  inputs_ = inputs_.detach().resolve_conj().resolve_neg().contiguous();  // plain memory: batch() copies bytes
  targets_ = targets_.detach().resolve_conj().resolve_neg().contiguous();
  if (!options.allow_non_finite) {
    expect_finite(inputs_, "inputs", options.name);
    expect_finite(targets_, "targets", options.name);
  }
}

Batch TensorDataset::batch(std::span<const int64_t> indices) const {
  for (const int64_t row : indices) TW_EXPECTS(row >= 0 && row < size(), "there is no sample ", row, "; the number of samples is ", size());
  return {gather(inputs_, indices), gather(targets_, indices)};
}

}  // namespace tw
