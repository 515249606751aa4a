// SPDX-License-Identifier: Apache-2.0
// The weighted mean over parts of a batch is the mean over the batch, for every loss of LibTorch that has a mean.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <tw/gradients/loss.hpp>
#include <vector>

#include "message_of.hpp"

namespace loss_test {

using tw::Loss;
using Tensors = std::vector<at::Tensor>;

struct Case {
  std::string name;
  Loss loss;
  at::Tensor outputs;
  at::Tensor targets;
};

at::Tensor numbers(at::IntArrayRef shape) { return torch::randn(shape, torch::kDouble); }
at::Tensor shares(at::IntArrayRef shape) { return torch::rand(shape, torch::kDouble); }
at::Tensor signs(at::IntArrayRef shape) { return torch::randint(2, shape, torch::kDouble) * 2 - 1; }

std::vector<Case> cases() {
  torch::manual_seed(5);
  const at::Tensor class_weights = torch::tensor({1.0, 0.2, 3.0}, torch::kDouble);
  const at::Tensor classes = torch::randint(3, {9}, torch::kLong);
  using CrossEntropy = torch::nn::CrossEntropyLossOptions;
  return {
      {"cross entropy", torch::nn::CrossEntropyLoss(), numbers({9, 3}), classes},
      {"cross entropy, ignored", torch::nn::CrossEntropyLoss(CrossEntropy().ignore_index(1)), numbers({9, 3}), classes},
      {"cross entropy, weighted", torch::nn::CrossEntropyLoss(CrossEntropy().weight(class_weights)), numbers({9, 3}), classes},
      {"cross entropy, both and smooth", torch::nn::CrossEntropyLoss(CrossEntropy().weight(class_weights).ignore_index(2).label_smoothing(0.1)),
       numbers({9, 3}), classes},
      {"cross entropy of places", torch::nn::CrossEntropyLoss(CrossEntropy().ignore_index(0)), numbers({9, 3, 4}), torch::randint(3, {9, 4})},
      {"cross entropy of probabilities", torch::nn::CrossEntropyLoss(CrossEntropy().weight(class_weights)), numbers({9, 3, 2}),
       shares({9, 3, 2}).softmax(1)},
      {"negative log-likelihood", torch::nn::NLLLoss(torch::nn::NLLLossOptions().weight(class_weights).ignore_index(1)),
       numbers({9, 3}).log_softmax(1), classes},
      {"mean square", torch::nn::MSELoss(), numbers({9, 4}), numbers({9, 4})},
      {"L1", torch::nn::L1Loss(), numbers({9, 4}), numbers({9, 4})},
      {"smooth L1", torch::nn::SmoothL1Loss(), numbers({9, 4}), numbers({9, 4})},
      {"Huber", torch::nn::HuberLoss(), numbers({9, 4}), numbers({9, 4})},
      {"binary cross entropy", torch::nn::BCELoss(), shares({9, 4}), shares({9, 4})},
      {"the same of logits", torch::nn::BCEWithLogitsLoss(), numbers({9, 4}), shares({9, 4})},
      {"Kullback-Leibler", torch::nn::KLDivLoss(), numbers({9, 4}).log_softmax(1), shares({9, 4}).softmax(1)},
      {"Kullback-Leibler over rows", torch::nn::KLDivLoss(torch::nn::KLDivLossOptions(torch::kBatchMean)), numbers({9, 4}).log_softmax(1),
       shares({9, 4}).softmax(1)},
      {"hinge", torch::nn::HingeEmbeddingLoss(), numbers({9, 4}), signs({9, 4})},
      {"multi-margin", torch::nn::MultiMarginLoss(torch::nn::MultiMarginLossOptions().weight(class_weights)), numbers({9, 3}), classes},
      {"soft margin", torch::nn::SoftMarginLoss(), numbers({9, 4}), signs({9, 4})},
      {"multi-label soft margin", torch::nn::MultiLabelSoftMarginLoss(), numbers({9, 4}), torch::randint(2, {9, 4}, torch::kDouble)},
      {"Poisson", torch::nn::PoissonNLLLoss(), numbers({9, 4}), shares({9, 4})},
      {"a function", [](const at::Tensor& y, const at::Tensor& t) { return (y - t).square().sum(1).mean(); }, numbers({9, 4}), numbers({9, 4})},
      {"lists", [](const Tensors& y, const Tensors& t) { return (y[0] - t[0]).abs().mean(); }, numbers({9, 4}), numbers({9, 4})},
      {"a weight of one's own",
       Loss::weighted([](const at::Tensor& y, const at::Tensor& t) { return (t * y.select(1, 0)).sum() / t.sum(); },
                      [](const Tensors& t) { return t[0].sum().item<double>(); }),
       numbers({9, 4}), shares({9})},
      {"a sum", torch::nn::MSELoss(torch::nn::MSELossOptions(torch::kSum)), numbers({9, 4}), numbers({9, 4})},
      {"a function that sums", Loss::summed([](const at::Tensor& y, const at::Tensor& t) { return (y - t).square().sum(); }), numbers({9, 4}),
       numbers({9, 4})},
  };
}

TEST(Loss, OfPartsIsThatOfTheWhole) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const double whole = each.loss.mean({each.outputs}, {each.targets}).item<double>();
    double sum = 0;
    double weight = 0;
    for (const auto& [begin, count] : std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {1, 3}, {4, 5}}) {
      const Tensors outputs{each.outputs.narrow(0, begin, count)};
      const Tensors targets{each.targets.narrow(0, begin, count)};
      const double of_part = each.loss.is_sum() ? 1 : each.loss.weight(targets, count);
      if (of_part > 0) sum += of_part * each.loss.mean(outputs, targets).item<double>();
      weight += of_part;
    }
    EXPECT_NEAR(each.loss.is_sum() ? sum : sum / weight, whole, 1e-14 * std::abs(whole) + 1e-15);
  }
}

TEST(Loss, HasNoWeightWhereNoTargetCounts) {
  const Loss loss = torch::nn::CrossEntropyLoss(torch::nn::CrossEntropyLossOptions().ignore_index(2));
  EXPECT_EQ(loss.weight({torch::full({4}, 2, torch::kLong)}, 4), 0);
}

TEST(Loss, RefusesListsAndOutputsThatItCannotTake) {
  using tw::testing::message_of;
  EXPECT_NE(message_of([] { Loss(torch::nn::MSELoss(torch::nn::MSELossOptions().reduction(torch::kNone))); }).find("reduction 'none'"),
            std::string::npos);
  const Loss loss = torch::nn::MSELoss();
  const at::Tensor x = torch::zeros({2, 1});
  EXPECT_NE(message_of([&] { (void)loss.mean({x, x}, {x}); }).find("takes one output and one target, but there are 2 and 1"), std::string::npos);
}

}  // namespace loss_test
