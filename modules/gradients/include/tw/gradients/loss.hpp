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

/// The sum of the weights of all targets that a cross-entropy counts: the denominator of its mean. Pure; a device is waited for.
/// @param targets class indices of any shape, or probabilities [n, classes, ...], which all count alike. @param class_weights undefined: 1 each
double cross_entropy_weight(const at::Tensor& targets, const at::Tensor& class_weights, std::optional<int64_t> ignore_index);

/// A loss of 0 whose gradients are zero, for outputs of which no target counts, whatever they are. Undefined outputs are left out.
at::Tensor zero_loss(const std::vector<at::Tensor>& outputs);

/// A loss module of LibTorch, as a holder.
template <class Holder>
concept TorchLoss = requires(Holder holder) { holder->options.reduction(); };

/// A loss that is a mean, and the weight that this mean is divided by. The mean over all micro-batches and ranks is then sum(weight * mean) /
/// sum(weight), as if one process had computed it over all samples at once, also if some targets do not count, or count more than others.
///
/// LibTorch's losses state their weight: the valid targets of `ignore_index`, the sum of class weights, or the elements. For any other function it is
/// the number of rows; pass another weight by `Loss::weighted(function, weight)`.
class Loss {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Mean = std::function<at::Tensor(const Tensors& outputs, const Tensors& targets)>;
  using Weight = std::function<double(const Tensors& targets)>;

  /// The mean over rows, for a model with one output and one target.
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

  /// A mean over something other than rows. @param mean of one output and one target, or of lists. @param weight the denominator of the mean, at
  /// least 0; a part of weight 0 is left out, because its mean is not a number
  template <class Function>
  static Loss weighted(Function mean, Weight weight) {
    Loss loss(std::move(mean));
    loss.weight_ = std::move(weight);
    return loss;
  }
  /// A sum over samples: the sums of all parts are added, and nothing is divided.
  template <class Function>
  static Loss summed(Function sum) {
    Loss loss(std::move(sum));
    loss.is_sum_ = true;
    return loss;
  }

  /// The same loss, with gradients times `factor`, such as LossScaler::scale(); its values stay. @param factor above 0
  Loss scaled_by(double factor) const {
    TW_EXPECTS(factor > 0, "a loss must be scaled by a positive factor, got ", factor);
    Loss loss = *this;
    loss.scale_ *= factor;
    return loss;
  }

  /// No loss, but a weight of one for each row.
  static Loss over_rows() {
    return Loss([](const Tensors& outputs, const Tensors& /*targets*/) { return outputs.front(); });
  }

  bool is_sum() const noexcept { return is_sum_; }
  bool weighs_rows() const noexcept { return !weight_; }
  double scale() const noexcept { return scale_; }
  at::Tensor mean(const Tensors& outputs, const Tensors& targets) const { return mean_(outputs, targets); }
  /// The weight of a part of a batch. @param rows of the part
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
    TW_EXPECTS((!std::is_same_v<Reduction, torch::enumtype::kNone>), "a loss with the reduction 'none' is a list, and has no gradient: use 'mean'");
    is_sum_ = std::is_same_v<Reduction, torch::enumtype::kSum>;
    return std::is_same_v<Reduction, torch::enumtype::kBatchMean>;
  }

  Mean mean_;
  Weight weight_;  // empty: rows
  bool is_sum_ = false;
  double scale_ = 1;
};

}  // namespace tw
