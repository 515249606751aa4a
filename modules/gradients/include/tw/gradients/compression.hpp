// SPDX-License-Identifier: Apache-2.0
// Methods that reduce gradients in fewer bytes, for slow networks: ReducerOptions::compressor. One object serves one Reducer; an object that has
// state refuses another. Gradients are float32 or float64. docs/strategies/compression.md lists what each costs and when it pays.
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/option.hpp>
#include <tw/gradients/compressor.hpp>

namespace tw {

enum class HalfPrecision {
  float16,   ///< 11 bits of mantissa, up to 65504: what is larger becomes infinite, which ReducerOptions::check_finite sees
  bfloat16,  ///< 8 bits of mantissa, the range of float32
};

/// Gradients travel in half precision, in an all-reduce: sums are made in float32 and rounded, once in a node, and between nodes as often as they
/// travel. For n elements: 2 n bytes.
std::shared_ptr<Compressor> half_compression(HalfPrecision precision);

struct TopKOptions {
  double fraction = 0.01;  ///< of a bucket's elements that travel; above 0, at most 1

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(TopKOptions& options, OptionVisitor& visitor);

/// Sends the elements of each bucket that are largest in magnitude, with their indices; the rest is added to the gradients of the next step
/// (error feedback). For n float32 elements: 8 fraction n bytes, gathered. If P ranks would receive more than in an all-reduce of all n, which is for
/// fraction > 1 / P, an all-reduce is used instead, with the same result. Ref: Stich et al. 2018, Sparsified SGD with Memory.
std::shared_ptr<Compressor> top_k_compression(const TopKOptions& options = {});

struct PowerSgdOptions {
  int64_t rank = 2;   ///< of the approximation of each gradient, as a matrix of its first dimension by all others
  uint64_t seed = 0;  ///< of the first guess

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(PowerSgdOptions& options, OptionVisitor& visitor);

/// Sends an approximation of low rank of each gradient with two or more dimensions. One step of subspace iteration improves the approximation of the
/// step before; the residual is added to the next step's gradient. Others are sent whole. For an n x m matrix: 4 rank (n + m) bytes in float32. Ref:
/// Vogels et al. 2019, PowerSGD, algorithms 1 and 2.
std::shared_ptr<Compressor> power_sgd_compression(const PowerSgdOptions& options = {});

}  // namespace tw
