// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/enum.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <tw/base/contract.hpp>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace tw {

/// The sum of the weights of all targets that a cross-entropy counts: the denominator of its mean. Pure. If the targets are on an accelerator, the
/// host waits for the result.
/// @param targets class indices of any shape, or probabilities of shape [n, classes, ...], where each distribution has weight 1
/// @param class_weights undefined: 1 each
double cross_entropy_weight(const at::Tensor& targets, const at::Tensor& class_weights, std::optional<int64_t> ignore_index);

/// Returns a loss of 0 whose gradients are 0 even if the outputs are not finite. It is for outputs whose targets do not count. Undefined outputs are
/// ignored.
at::Tensor zero_loss(const std::vector<at::Tensor>& outputs);

/// The holder of a loss module of LibTorch.
template <class Holder>
concept TorchLoss = requires(Holder holder) { holder->options.reduction(); };

/// A loss that is a mean, and its weight: the denominator of the mean. From these, the mean over all micro-batches and ranks is sum(weight * mean) /
/// sum(weight). It equals the mean that one process computes over all samples at once, even if some targets do not count, or count more than others.
///
/// For LibTorch's CrossEntropyLoss and NLLLoss, the weight is cross_entropy_weight(). For LibTorch's other losses, it is the number of target
/// elements, or of rows with the reduction `batchmean`. For any other function, it is the number of rows; pass another weight by
/// `Loss::weighted(function, weight)`.
class Loss {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Mean = std::function<at::Tensor(const Tensors& outputs, const Tensors& targets)>;
  using Weight = std::function<double(const Tensors& targets)>;

  /// A function that returns the mean over rows, for a model with one output and one target.
  template <class Function>
    requires(!TorchLoss<Function>) && std::is_invocable_r_v<at::Tensor, Function&, const at::Tensor&, const at::Tensor&>
  Loss(Function function) : mean_(of_one(std::move(function))) {}  // NOLINT(google-explicit-constructor): an argument as users have it

  /// The same for a model with several outputs or targets.
  template <class Function>
    requires(!TorchLoss<Function>) && std::is_invocable_r_v<at::Tensor, Function&, const Tensors&, const Tensors&>
  Loss(Function function) : mean_(std::move(function)) {}  // NOLINT(google-explicit-constructor)

  /// A loss of LibTorch, such as `torch::nn::CrossEntropyLoss()`. @throws ContractError for the reduction `none`
  template <TorchLoss Holder>
  Loss(Holder holder) : mean_(of_one([holder](const at::Tensor& y, const at::Tensor& t) mutable { return holder->forward(y, t); })) {
    const bool over_rows = std::visit([this](const auto& reduction) { return this->read(reduction); }, holder->options.reduction());
    if (over_rows || is_sum_) return;
    if constexpr (requires { holder->options.ignore_index(); }) {
      weight_ = [weights = holder->options.weight(), ignored = holder->options.ignore_index()](const Tensors& t) {
        return cross_entropy_weight(t.at(0), weights, ignored);
      };
    } else {
      weight_ = [](const Tensors& t) { return static_cast<double>(t.at(0).numel()); };
    }
  }

  /// A mean over something other than rows. @param mean a function of one output and one target, or of two lists of tensors. @param weight returns
  /// the denominator of the mean, at least 0; parts of a batch whose weight is 0 are left out, because their mean is not a number
  template <class Function>
  static Loss weighted(Function mean, Weight weight) {
    Loss loss(std::move(mean));
    loss.weight_ = std::move(weight);
    return loss;
  }
  /// A sum over samples: the sums over all parts of a batch are added and not divided.
  template <class Function>
  static Loss summed(Function sum) {
    Loss loss(std::move(sum));
    loss.is_sum_ = true;
    return loss;
  }

  /// The same loss, with gradients multiplied by `factor`, such as LossScaler::scale(). Its values stay the same. @param factor above 0
  Loss scaled_by(double factor) const {
    TW_EXPECTS(factor > 0, "a loss must be scaled by a positive factor, got ", factor);
    Loss loss = *this;
    loss.scale_ *= factor;
    return loss;
  }

  /// For passes without a loss, such as an evaluation: each row has weight 1.
  static Loss over_rows() {
    return Loss([](const Tensors& outputs, const Tensors& /*targets*/) { return outputs.front(); });
  }

  bool is_sum() const noexcept { return is_sum_; }
  bool weighs_rows() const noexcept { return !weight_; }
  double scale() const noexcept { return scale_; }
  at::Tensor mean(const Tensors& outputs, const Tensors& targets) const { return mean_(outputs, targets); }
  /// The weight of a part of a batch. @param rows the number of rows in the part
  double weight(const Tensors& targets, int64_t rows) const { return weight_ ? weight_(targets) : static_cast<double>(rows); }

 private:
  template <class Function>
  static Mean of_one(Function function) {
    return [function = std::move(function)](const Tensors& outputs, const Tensors& targets) mutable {
      TW_EXPECTS(outputs.size() == 1 && targets.size() == 1, "this loss takes one output and one target, but there are ", outputs.size(), " and ",
                 targets.size(), ": pass a function of two lists of tensors");
      return function(outputs.front(), targets.front());
    };
  }
  /// @return whether the mean is over rows, whatever the number of elements
  template <class Reduction>
  bool read(const Reduction& /*reduction*/) {
    TW_EXPECTS((!std::is_same_v<Reduction, torch::enumtype::kNone>),
               "a loss with the reduction 'none' is a list and has no gradient: use 'mean' or 'sum'");
    is_sum_ = std::is_same_v<Reduction, torch::enumtype::kSum>;
    return std::is_same_v<Reduction, torch::enumtype::kBatchMean>;
  }

  Mean mean_;
  Weight weight_;  // empty: rows
  bool is_sum_ = false;
  double scale_ = 1;
};

}  // namespace tw
