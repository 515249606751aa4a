// SPDX-License-Identifier: Apache-2.0
// Splits that experiments find, against those that follow from what the operators compute.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/graph/capture.hpp>
#include <tw/splits/operator_splits.hpp>

namespace tw::splits {
namespace operator_splits_test {

using at::Tensor;
using Tensors = std::vector<Tensor>;

/// The splits of the only operator that `function` calls, as texts such as "split(1), whole~ -> split(0)"; ~: its cotangent is partial.
std::vector<std::string> found(const std::function<Tensor(const Tensors&)>& function, const Tensors& inputs, int ranks = 2,
                               const std::vector<int64_t>& groups = {}) {
  const graph::Graph graph = graph::capture_call([&](const Tensors& in) { return Tensors{function(in)}; }, {}, inputs);
  EXPECT_EQ(graph.nodes.size(), 1U) << graph::to_text(graph);
  GroupCounts counts = group_counts(graph);
  for (const Tensor& each : inputs) {
    for (const int64_t size : each.sizes()) {
      if (!groups.empty()) counts[size] = groups;
    }
  }
  Subject subject{.graph = graph, .rows = 1};
  for (const int value : graph.nodes[0].inputs()) {
    const auto place = std::ranges::find(graph.inputs, value) - graph.inputs.begin();
    subject.inputs.push_back(inputs.at(static_cast<size_t>(place)));
  }
  EXPECT_EQ(reason_to_stay_whole(graph, 0), "");
  std::vector<std::string> texts;
  for (const OperatorSplit& each : splits_of(subject, ranks, counts).splits) {
    std::vector<std::string> of_inputs;
    for (size_t i = 0; i < each.inputs.size(); ++i) of_inputs.push_back(to_text(each.inputs[i]) + (each.has_partial_cotangent[i] ? "~" : ""));
    texts.push_back(concat(joined(of_inputs), " -> ", joined(each.outputs, ", ", [](const Placement& one) { return to_text(one); })));
  }
  std::ranges::sort(texts);
  return texts;
}

using Texts = std::vector<std::string>;
Tensor f64(at::IntArrayRef sizes) { return torch::randn(sizes, torch::kDouble); }

TEST(OperatorSplits, FindsThoseOfAMatrixProduct) {
  for (const int ranks : {2, 3, 4}) {
    EXPECT_EQ(found([](const Tensors& in) { return torch::mm(in[0], in[1]); }, {f64({24, 36}), f64({36, 60})}, ranks),
              (Texts{"partial, whole~ -> partial", "split(0), whole~ -> split(0)", "split(1), split(0) -> partial", "whole~, partial -> partial",
                     "whole~, split(1) -> split(1)"}))
        << ranks << " ranks";
  }
}

TEST(OperatorSplits, AddsABiasOnce) {
  const Texts splits = found([](const Tensors& in) { return torch::addmm(in[0], in[1], in[2]); }, {f64({8}), f64({6, 4}), f64({4, 8})});
  const auto has = [&](const char* text) { return std::ranges::find(splits, text) != splits.end(); };
  EXPECT_TRUE(has("partial, split(1), split(0) -> partial")) << joined(splits, "\n");
  EXPECT_TRUE(has("split(0), whole~, split(1) -> split(1)")) << joined(splits, "\n");
  EXPECT_FALSE(has("whole, split(1), split(0) -> partial")) << "each rank would add the bias";
}

TEST(OperatorSplits, FindsThoseOfElementwiseOperators) {
  EXPECT_EQ(found([](const Tensors& in) { return torch::relu(in[0]); }, {f64({4, 6})}), (Texts{"split(0) -> split(0)", "split(1) -> split(1)"}));
  EXPECT_EQ(found([](const Tensors& in) { return torch::add(in[0], in[1]); }, {f64({4, 6}), f64({4, 6})}),
            (Texts{"partial, partial -> partial", "split(0), split(0) -> split(0)", "split(1), split(1) -> split(1)"}));
  EXPECT_EQ(found([](const Tensors& in) { return torch::mul(in[0], in[1]); }, {f64({4, 6}), f64({6})}),
            (Texts{"partial, whole~ -> partial", "split(0), whole~ -> split(0)", "split(1), split(0) -> split(1)", "whole~, partial -> partial"}));
}

// It is linear for numbers up to 10.
TEST(OperatorSplits, RefusesAClampAsPartial) {
  EXPECT_EQ(found([](const Tensors& in) { return torch::clamp(in[0], -10, 10); }, {f64({4, 6})}),
            (Texts{"split(0) -> split(0)", "split(1) -> split(1)"}));
}

TEST(OperatorSplits, KeepsDimensionsWholeThatAreNormalised) {
  EXPECT_EQ(found([](const Tensors& in) { return torch::softmax(in[0], 1); }, {f64({4, 6})}), (Texts{"split(0) -> split(0)"}));
  EXPECT_EQ(found([](const Tensors& in) { return torch::layer_norm(in[0], {6}, in[1], in[2]); }, {f64({4, 6}), f64({6}), f64({6})}),
            (Texts{"split(0), whole~, whole~ -> split(0)", "whole~, partial, partial -> partial"}));
}

TEST(OperatorSplits, DividesSizesAmongArguments) {
  const auto heads = [](const Tensors& in) { return in[0].view({2, 5, 4, 6}); };
  const Texts splits = found(heads, {f64({2, 5, 24})});
  const auto has = [&](const char* text) { return std::ranges::find(splits, text) != splits.end(); };
  EXPECT_TRUE(has("split(2) -> split(2)")) << joined(splits, "\n");
  EXPECT_TRUE(has("split(2) in 4 groups -> split(3)")) << joined(splits, "\n");
  EXPECT_TRUE(has("partial -> partial")) << joined(splits, "\n");
}

TEST(OperatorSplits, DividesGroups) {
  const auto packed = [](const Tensors& in) { return in[0].view({5, 3, 4, 6}); };  // queries, keys and values of 4 heads
  const Texts views = found(packed, {f64({5, 72})});
  EXPECT_NE(std::ranges::find(views, "split(1) in 3 groups -> split(2)"), views.end()) << joined(views, "\n");
  const Texts products = found([](const Tensors& in) { return torch::mm(in[0], in[1]); }, {f64({5, 7}), f64({7, 72})}, 2, {3});
  EXPECT_NE(std::ranges::find(products, "whole~, split(1) in 3 groups -> split(1) in 3 groups"), products.end()) << joined(products, "\n");
}

TEST(OperatorSplits, FindsThoseOfAConvolution) {
  const auto convolution = [](const Tensors& in) { return torch::conv2d(in[0], in[1]); };
  const Texts splits = found(convolution, {f64({3, 4, 5, 5}), f64({6, 4, 3, 3})});
  const auto has = [&](const char* text) { return std::ranges::find(splits, text) != splits.end(); };
  EXPECT_TRUE(has("whole~, split(0) -> split(1)")) << joined(splits, "\n");
  EXPECT_TRUE(has("split(1), split(1) -> partial")) << joined(splits, "\n");
}

TEST(OperatorSplits, LooksUpPartsOfVectors) {
  const Tensor indices = torch::tensor({3, 0, 1, 3, 2, 2}, torch::kLong);
  EXPECT_EQ(found([&](const Tensors& in) { return torch::embedding(in[0], in[1]); }, {f64({4, 6}), indices}),
            (Texts{"partial, whole -> partial", "split(1), whole -> split(1)"}));
}

TEST(OperatorSplits, PutsListsTogether) {
  const Texts splits = found([](const Tensors& in) { return torch::cat({in[0], in[1]}, 0); }, {f64({4, 6}), f64({4, 6})});
  const auto has = [&](const char* text) { return std::ranges::find(splits, text) != splits.end(); };
  EXPECT_TRUE(has("split(1), split(1) -> split(1)")) << joined(splits, "\n");
  EXPECT_TRUE(has("split(0), split(0) -> split(0) in 2 groups")) << joined(splits, "\n");
}

TEST(OperatorSplits, KeepsWholeWhatIsTrueForRandomNumbersAlone) {
  EXPECT_EQ(found([](const Tensors& in) { return torch::any(in[0], 1); }, {f64({4, 6})}), Texts());
  EXPECT_EQ(found([](const Tensors& in) { return torch::nan_to_num(in[0]); }, {f64({4, 6})}),
            (Texts{"split(0) -> split(0)", "split(1) -> split(1)"}));
  EXPECT_EQ(found([](const Tensors& in) { return torch::add(in[0], 1e-20); }, {f64({4, 6})}),
            (Texts{"split(0) -> split(0)", "split(1) -> split(1)"}));
}

// With the flag that is given, the result is a sum like its input; with the other one, a constant.
TEST(OperatorSplits, TriesBothValuesOfAFlag) {
  const auto chosen = [](const Tensors& in) { return torch::where(in[0], in[1], in[2]); };
  for (const bool flag : {false, true}) {
    for (const std::string& each : found(chosen, {torch::tensor(flag), f64({4, 6}), torch::tensor(7.0, torch::kDouble)}))
      EXPECT_TRUE(each.starts_with("whole, split(") || each == "whole, partial, partial -> partial") << each;
  }
}

// In the example all exponents are one, as in a mask of integers.
TEST(OperatorSplits, TriesOtherIntegersThanOnes) {
  EXPECT_EQ(found([](const Tensors& in) { return torch::pow(in[0], in[1]); }, {f64({4, 6}), torch::ones({1}, torch::kLong)}),
            (Texts{"split(0), whole -> split(0)", "split(1), whole -> split(1)"}));
}

TEST(OperatorSplits, FindsNoneWhereRanksDoNotDivideASize) {
  EXPECT_EQ(found([](const Tensors& in) { return torch::relu(in[0]); }, {f64({5, 7})}), Texts());
}

TEST(OperatorSplits, NamesWhyAnOperatorStaysWhole) {
  const auto reason = [](const std::function<Tensor(const Tensor&)>& function) {
    const graph::Graph graph = graph::capture_call([&](const Tensors& in) { return Tensors{function(in[0])}; }, {}, {f64({4, 6})});
    return reason_to_stay_whole(graph, 0);
  };
  EXPECT_EQ(reason([](const Tensor& x) { return torch::dropout(x, 0.5, true); }), "it draws random numbers");
  EXPECT_EQ(reason([](const Tensor& x) { return torch::dropout(x, 0.5, false); }), "");
  const Tensors weights{f64({20, 6}), f64({20, 5})};
  const Tensors states{f64({1, 4, 5}), f64({1, 4, 5})};
  const auto recurrent = [&](const Tensors& in) {
    return Tensors{std::get<0>(torch::lstm(in[0], states, weights, /*has_biases=*/false, 1, /*dropout=*/0, true, false, false))};
  };
  const graph::Graph graph = graph::capture_call(recurrent, {}, {f64({1, 4, 6})});
  EXPECT_EQ(reason_to_stay_whole(graph, 0), "LibTorch does not check the sizes of its inputs, so it is not tried");
  EXPECT_EQ(reason([](const Tensor& x) { return x.as_strided({2, 2}, {1, 2}); }), "it reads memory beyond its input");
}

}  // namespace operator_splits_test
}  // namespace tw::splits
