// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/_neg_view.h>
#include <c10/core/Stream.h>

namespace tw {

/// Tensor::record_stream(), but also safe for conjugated and negated views, on which LibTorch 2.13 releases a tensor once too often.
inline void record_stream(const at::Tensor& tensor, c10::Stream stream) {
  at::Tensor plain = tensor;
  if (plain.is_conj()) plain = at::_conj(plain);
  if (plain.is_neg()) plain = at::_neg_view(plain);
  plain.record_stream(stream);
}

}  // namespace tw
