// SPDX-License-Identifier: Apache-2.0
// Backward passes in two halves: first the gradients of inputs, and later those of weights. Ref: Qi et al. 2023, arXiv 2401.10241.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace tw {

/// Postpones the gradients of weights: a backward pass computes only the gradients of the inputs, and accumulate() later computes those of the
/// weights. Until then this object keeps the operators' inputs and their outputs' gradients (cotangents).
///
/// ```
/// WeightGradients later;
/// at::Tensor y = later.record({x}, {w}, [](const auto& inputs, const auto& weights) { return at::mm(inputs[0], weights[0]); });
/// y.sum().backward();   // x.grad()
/// later.accumulate();   // w.grad()
/// ```
class WeightGradients {
 public:
  /// An operator. Its arguments may be copies that share the memory of the tensors passed to record().
  using Operator = std::function<at::Tensor(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& weights)>;

  WeightGradients();

  /// Runs `op`. Backward passes through the result compute the gradients of `inputs`, and leave those of `weights` to accumulate(). Use it for
  /// operators whose two gradients share no work, such as products of matrices. If no weight requires a gradient, or grad mode is off, it just runs
  /// `op`.
  /// @param weights parameters or views of them. A computed weight is allowed if no backward pass before accumulate() runs through the operators that
  /// compute it.
  at::Tensor record(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& weights, const Operator& op);
  /// Computes the postponed gradients and adds them to the weights' gradients; hooks on weights run during this call. Takes one backward pass, or
  /// more if a weight is itself a result of record(). Frees the kept tensors.
  void accumulate();
  /// Whether no gradient is postponed.
  bool empty() const noexcept;

  /// While it exists, each graph::Interpreter (<tw/graph/interpreter.hpp>) on this thread passes its products with weights to `gradients.record()`.
  class Recording {
   public:
    explicit Recording(WeightGradients& gradients);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    WeightGradients* before_;
  };
  /// The `gradients` of the innermost Recording on this thread, or null if there is none.
  static WeightGradients* here() noexcept;

 private:
  struct Kept;
  std::shared_ptr<Kept> kept_;
};

}  // namespace tw
