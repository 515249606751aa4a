// SPDX-License-Identifier: Apache-2.0
// Computed profiles of known models, for devices that you do not have.
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>
#include <tw/planning/profile.hpp>

namespace tw::pipeline {

/// The speed of a device. An operator that reads and writes `bytes` takes flops / flops_per_second + bytes / bytes_per_second seconds. This is affine
/// in the rows.
struct Rates {
  double flops_per_second = 1e13;
  double bytes_per_second = 1e12;  ///< memory bandwidth

  /// @throws ContractError naming the wrong field
  void validate() const;
};
void visit(Rates& rates, OptionVisitor& visitor);

/// The profile of an MLP in float32: `layers` Linear layers with bias, and a ReLU after each except the last. All Linear layers but the last have
/// `hidden` neurons.
/// A matrix product of n rows has 2 * n * inputs * outputs flops forward and twice as many backward. A row is one sample.
/// @param layers at least 1; the last one has `outputs` neurons
Profile mlp_profile(int64_t hidden, int64_t layers, int64_t input, int64_t outputs, const Rates& rates);

/// The profile of a GPT in float32: token and position embedding, `blocks` blocks (layer norm, attention, residual, layer norm, MLP of width
/// 4 * `width`, residual), layer norm, and a head that shares the embedding's weight. A row is one sequence. Attention saves its probabilities for
/// the backward pass.
/// @param width a multiple of `heads`
Profile transformer_profile(int64_t blocks, int64_t width, int64_t heads, int64_t sequence, int64_t vocabulary, const Rates& rates);

}  // namespace tw::pipeline
