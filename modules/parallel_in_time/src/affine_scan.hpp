// SPDX-License-Identifier: Apache-2.0
// Linear recurrences g_t = J_t g_{t-1} + c_t over the steps of a rank, of which the start comes late.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/parallel_in_time/propagator.hpp>

namespace tw::layer_parallel {

/// A state as one tensor, as Jacobians take it: [..., S] with all, [..., k, width] on the diagonal.
at::Tensor as_vector(const State& state, JacobianKind kind);
/// The other way. @param like a state, in widths
State as_state(const at::Tensor& vector, const State& like, JacobianKind kind);
/// J v, with the same leading dimensions.
at::Tensor applied(const at::Tensor& jacobian, const at::Tensor& vector, JacobianKind kind);

/// In chunks: all at once make the map of their steps, one step after the other; the starts of the chunks follow from each other; then all chunks at
/// once go on from these. Of n steps that is some sqrt(12 n) calls of LibTorch in place of n, and until the start is known there is little left to
/// do. It multiplies Jacobians with each other, though: where that costs more than it saves, steps are made one after the other.
///
/// What is not finite becomes 0: a recurrence that overflows is of no use, and 0 is what comes of steps that lead nowhere new.
class AffineScan {
 public:
  /// @param jacobians [n, ...] @param constants [n, ...], as vectors @param steps_in_all of the recurrence, n here
  AffineScan(JacobianKind kind, at::Tensor jacobians, at::Tensor constants, int64_t steps_in_all);

  /// Where the steps lead to. @param start [...]
  at::Tensor end(const at::Tensor& start);
  /// What all lead to, [n, ...].
  at::Tensor all(const at::Tensor& start);

  /// Steps of a chunk; n: one after the other.
  int64_t length() const noexcept { return length_; }

 private:
  void compose();
  at::Tensor starts_of_chunks(const at::Tensor& start) const;

  JacobianKind kind_;
  at::Tensor jacobians_;
  at::Tensor constants_;
  int64_t steps_;
  int64_t length_;
  at::Tensor matrices_;  // of whole chunks
  at::Tensor offsets_;
};

/// Steps of a chunk, by what they cost. @param steps n @param entries numbers in the Jacobian of a step @param matrix_size rows of one matrix
int64_t chunk_length(int64_t steps, int64_t steps_in_all, double entries, double matrix_size);

}  // namespace tw::layer_parallel
