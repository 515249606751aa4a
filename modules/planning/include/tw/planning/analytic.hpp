// SPDX-License-Identifier: Apache-2.0
// Profiles of known models from arithmetic alone, for devices that one does not have.
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>
#include <tw/planning/profile.hpp>

namespace tw::pipeline {

/// Of a device. An operator takes flops / flops_per_second + bytes / bytes_per_second: never less than either, and affine in the rows.
struct Rates {
  double flops_per_second = 1e13;
  double bytes_per_second = 1e12;  ///< of its memory

  /// @throws ContractError naming the wrong field
  void validate() const;
};
void visit(Rates& rates, OptionVisitor& visitor);

/// `layers` Linear layers of float32 with bias, ReLU between them; `hidden` neurons in all but the last one. A matrix product of n rows has
/// 2 n inputs outputs flops forward and twice as many backward. A row is one sample.
/// @param layers at least 1; the last one has `outputs` neurons
Profile mlp_profile(int64_t hidden, int64_t layers, int64_t input, int64_t outputs, const Rates& rates);

/// A GPT of float32: token and position embedding, `blocks` blocks (layer norm, attention, residual, layer norm, MLP of 4 width, residual), layer
/// norm and a head that shares the embedding's weight. A row is one sequence. Attention keeps its probabilities.
/// @param width a multiple of `heads`
Profile transformer_profile(int64_t blocks, int64_t width, int64_t heads, int64_t sequence, int64_t vocabulary, const Rates& rates);

}  // namespace tw::pipeline
