// SPDX-License-Identifier: Apache-2.0
#include "affine_scan.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace tw::layer_parallel {
namespace {

using at::Tensor;

// The product J B, for matrices of J's shape.
Tensor composed(const Tensor& jacobian, const Tensor& b, JacobianKind kind) {
  if (kind == JacobianKind::full) return jacobian.matmul(b);
  Tensor result;
  for (int64_t i = 0; i < jacobian.size(-2); ++i) {
    const Tensor column = jacobian.select(-2, i).unsqueeze(-2);
    const Tensor row = b.select(-3, i).unsqueeze(-3);
    result = result.defined() ? result.addcmul_(column, row) : column * row;
  }
  return result;
}

Tensor finite(const Tensor& tensor) { return tensor.nan_to_num_(0, 0, 0); }

}  // namespace

Tensor as_vector(const State& state, JacobianKind kind) {
  if (kind == JacobianKind::diagonal) return state.size() == 1 ? state[0].unsqueeze(-2) : at::stack(state, -2);
  return state.size() == 1 ? state[0] : at::cat(state, -1);
}

State as_state(const Tensor& vector, const State& like, JacobianKind kind) {
  State state;
  int64_t begin = 0;
  for (size_t i = 0; i < like.size(); ++i) {
    const int64_t width = like[i].size(-1);
    state.push_back(kind == JacobianKind::diagonal ? vector.select(-2, static_cast<int64_t>(i)) : vector.narrow(-1, begin, width));
    begin += width;
  }
  return state;
}

Tensor applied(const Tensor& jacobian, const Tensor& vector, JacobianKind kind) {
  if (kind == JacobianKind::full) return jacobian.matmul(vector.unsqueeze(-1)).squeeze(-1);
  Tensor result;
  for (int64_t i = 0; i < jacobian.size(-2); ++i) {
    const Tensor column = jacobian.select(-2, i);
    const Tensor number = vector.select(-2, i).unsqueeze(-2);
    result = result.defined() ? result.addcmul_(column, number) : column * number;
  }
  return result;
}

int64_t chunk_length(int64_t steps, int64_t steps_in_all, double entries, double matrix_size) {
  // Measured in ns on one core in float32: a few LibTorch calls, one entry of a Jacobian in J v, and one entry in a product of two Jacobians. Small
  // matrices do not use the full width of the core there.
  constexpr double calls = 4000;
  constexpr double in_a_step = 0.5;
  const double in_a_product = std::max(1.2, matrix_size / 30);
  const auto n = static_cast<double>(steps);
  // A step in a chunk is computed three times: in the chunk's matrix, in its offset, and once the start is known.
  const int64_t length = std::clamp<int64_t>(std::llround(std::sqrt(n / 3)), 1, std::max<int64_t>(steps, 1));
  const auto c = static_cast<double>(length);
  const double chunked = (3 * c + n / c) * calls + n * entries * (in_a_step + in_a_product);
  const double one_by_one = static_cast<double>(steps_in_all) * (calls + entries * in_a_step);
  return chunked < one_by_one ? length : steps;
}

AffineScan::AffineScan(JacobianKind kind, Tensor jacobians, Tensor constants, int64_t steps_in_all)
    : kind_(kind), jacobians_(std::move(jacobians)), constants_(std::move(constants)), steps_(constants_.size(0)) {
  const double entries = static_cast<double>(jacobians_.numel()) / static_cast<double>(std::max<int64_t>(steps_, 1));
  length_ = chunk_length(steps_, steps_in_all, entries, static_cast<double>(jacobians_.size(kind == JacobianKind::full ? -1 : -2)));
  if (length_ < steps_) compose();
}

void AffineScan::compose() {
  for (int64_t j = 0; j < length_; ++j) {
    const Tensor jacobian = jacobians_.slice(0, j, steps_, length_);
    const Tensor constant = constants_.slice(0, j, steps_, length_);
    if (j == 0) {
      matrices_ = jacobian.clone(at::MemoryFormat::Contiguous);
      offsets_ = constant.clone(at::MemoryFormat::Contiguous);
      continue;
    }
    // The last chunk may end before the others.
    const Tensor matrices = matrices_.narrow(0, 0, jacobian.size(0));
    const Tensor offsets = offsets_.narrow(0, 0, jacobian.size(0));
    offsets.copy_(applied(jacobian, offsets, kind_).add_(constant));
    matrices.copy_(composed(jacobian, matrices, kind_));
  }
}

Tensor AffineScan::end(const Tensor& start) {
  if (length_ == steps_) return all(start).select(0, -1);
  Tensor state = start;
  for (int64_t chunk = 0; chunk < matrices_.size(0); ++chunk) {
    state = finite(applied(matrices_.select(0, chunk), state, kind_).add_(offsets_.select(0, chunk)));
  }
  return state;
}

Tensor AffineScan::starts_of_chunks(const Tensor& start) const {
  if (length_ == steps_) return start.unsqueeze(0);
  std::vector<Tensor> starts{start};
  for (int64_t chunk = 0; chunk + 1 < matrices_.size(0); ++chunk) {
    starts.push_back(finite(applied(matrices_.select(0, chunk), starts.back(), kind_).add_(offsets_.select(0, chunk))));
  }
  return at::stack(starts);
}

Tensor AffineScan::all(const Tensor& start) {
  const Tensor result = at::empty_like(constants_, at::MemoryFormat::Contiguous);
  Tensor states = starts_of_chunks(start);
  for (int64_t j = 0; j < length_; ++j) {
    const Tensor jacobian = jacobians_.slice(0, j, steps_, length_);
    states = applied(jacobian, states.narrow(0, 0, jacobian.size(0)), kind_).add_(constants_.slice(0, j, steps_, length_));
    result.slice(0, j, steps_, length_).copy_(states);
  }
  return finite(result);
}

}  // namespace tw::layer_parallel
