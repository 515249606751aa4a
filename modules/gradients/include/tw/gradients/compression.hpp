// SPDX-License-Identifier: Apache-2.0
// Gradient compression for slow networks; see ReducerOptions::compressor. One compressor serves one Reducer; a compressor with state throws if a
// second Reducer uses it. Gradients must be float32 or float64. docs/strategies/compression.md lists the cost of each method and when it pays.
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/option.hpp>
#include <tw/gradients/compressor.hpp>

namespace tw {

enum class HalfPrecision {
  float16,   ///< 11 bits of mantissa, up to 65504: larger values become infinite, which ReducerOptions::check_finite detects
  bfloat16,  ///< 8 bits of mantissa, the range of float32
};

/// All-reduces gradients in half precision. Sums are computed in float32; they are rounded to half precision once within a node and at each hop
/// between nodes. Sends 2 * n bytes for n elements.
std::shared_ptr<Compressor> half_compression(HalfPrecision precision);

struct TopKOptions {
  double fraction = 0.01;  ///< fraction of a bucket's elements that is sent; above 0, at most 1

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(TopKOptions& options, OptionVisitor& visitor);

/// Sends the elements of each bucket that are largest in magnitude, with their indices. The other elements are added to the gradients of the next
/// step (error feedback). For n float32 elements on P ranks, each rank receives 8 * fraction * n bytes from every other rank. If fraction > 1 / P, an
/// all-reduce of all n elements sends fewer bytes; it is used instead, with the same result. Ref: Stich et al. 2018, Sparsified SGD with Memory.
std::shared_ptr<Compressor> top_k_compression(const TopKOptions& options = {});

struct PowerSgdOptions {
  int64_t rank = 2;   ///< rank of the approximation of each gradient, which is viewed as a matrix: first dimension x all others
  uint64_t seed = 0;  ///< seed of the initial approximation

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(PowerSgdOptions& options, OptionVisitor& visitor);

/// Sends a low-rank approximation of each gradient with two or more dimensions. Each step makes one subspace iteration, starting from the previous
/// step's approximation. The residual, the gradient minus its approximation, is added to the next step's gradient. Other gradients, and matrices that
/// the approximation would not shrink, are sent uncompressed. For an n x m matrix in float32, a rank sends 4 * rank * (n + m) bytes. Ref: Vogels et
/// al. 2019, PowerSGD, algorithms 1 and 2.
std::shared_ptr<Compressor> power_sgd_compression(const PowerSgdOptions& options = {});

}  // namespace tw
