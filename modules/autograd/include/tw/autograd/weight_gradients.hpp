// SPDX-License-Identifier: Apache-2.0
// Backward passes in two halves: first the gradients of inputs, and later those of weights. Ref: Qi et al. 2023, arXiv 2401.10241.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace tw {

/// Gradients of weights that a backward pass has left for later. It keeps what they need: the operators' inputs and cotangents.
///
/// ```
/// WeightGradients later;
/// at::Tensor y = later.record({x}, {w}, [](const auto& inputs, const auto& weights) { return at::mm(inputs[0], weights[0]); });
/// y.sum().backward();   // x.grad()
/// later.accumulate();   // w.grad()
/// ```
class WeightGradients {
 public:
  /// An operator, as a function of copies of its tensors that share memory.
  using Operator = std::function<at::Tensor(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& weights)>;

  WeightGradients();

  /// Runs `op`. Backward passes through the result make the gradients of `inputs`, and leave those of `weights` to accumulate(). Worth it for
  /// operators whose two halves share no work, such as products of matrices. If nothing of `weights` requires a gradient, it just runs `op`.
  /// @param weights parameters or views of them; what computes others must not be part of a pass before accumulate()
  at::Tensor record(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& weights, const Operator& op);
  /// Makes the gradients that were left, in one backward pass if none of `weights` is itself a result, and adds them to the weights'; hooks on
  /// weights run now. Frees what was kept.
  void accumulate();
  /// Whether no gradient is left.
  bool empty() const noexcept;

  /// While it exists, this thread's interpreters of captured graphs record with `gradients`.
  class Recording {
   public:
    explicit Recording(WeightGradients& gradients);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    WeightGradients* before_;
  };
  /// That of the innermost Recording on this thread; null: there is none.
  static WeightGradients* here() noexcept;

 private:
  struct Kept;
  std::shared_ptr<Kept> kept_;
};

}  // namespace tw
