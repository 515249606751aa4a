// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <set>
#include <tw/tensor.hpp>

namespace {

TEST(FlatLayout, AlignsEveryTensorAndOverlapsNone) {
  const std::vector<int64_t> numels{3, 0, 16, 17, 1};
  const auto layout = tw::flat_layout(numels, 16);
  EXPECT_EQ(layout.offsets, (std::vector<int64_t>{0, 16, 16, 32, 64}));
  EXPECT_EQ(layout.numel, 80);
  EXPECT_EQ(tw::flat_layout(numels).numel, 3 + 16 + 17 + 1);
  EXPECT_THROW(tw::flat_layout(numels, 0), tw::ContractError);
}

TEST(FlatBuffer, ViewsShareMemoryAndOutliveIt) {
  at::Tensor view;
  {
    const tw::FlatBuffer buffer(10, at::kDouble);
    view = buffer.view(4, {2, 3});
    view.fill_(7);
    EXPECT_EQ(buffer.storage().sum().item<double>(), 42);
    EXPECT_EQ(buffer.storage()[3].item<double>(), 0);
  }
  EXPECT_TRUE(view.is_contiguous());
  EXPECT_EQ(view.sum().item<double>(), 42);
}

TEST(FlatBuffer, GradientsAccumulateIntoAView) {
  const tw::FlatBuffer buffer(4, at::kFloat);
  auto parameter = torch::ones({4}, torch::requires_grad());
  parameter.mutable_grad() = buffer.view(0, {4});
  (3 * parameter).sum().backward();
  EXPECT_EQ(buffer.storage().sum().item<float>(), 12);
}

TEST(TensorSpec, DescribesItself) {
  const tw::TensorSpec spec{"conv.weight", {20, 1, 5, 5}, at::kFloat};
  EXPECT_EQ(spec.numel(), 500);
  EXPECT_EQ(spec.describe(), "conv.weight float32 [20, 1, 5, 5]");
  EXPECT_EQ((tw::TensorSpec{"scale", {}, at::kDouble}.describe()), "scale float64 []");
}

TEST(NamedTensor, AliasesAreDropped) {
  const auto shared = torch::ones({2});
  const auto kept = tw::without_aliases({{"a", shared}, {"b", torch::ones({3})}, {"c", shared}});
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(kept[0].name, "a");
  EXPECT_EQ(kept[1].name, "b");
}

TEST(Process, HoldsOneOpenMpRuntime) {
  std::set<std::string> runtimes;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("libgomp") != std::string::npos || line.find("libomp") != std::string::npos || line.find("libiomp") != std::string::npos) {
      runtimes.insert(line.substr(line.find('/')));
    }
  }
  EXPECT_EQ(runtimes.size(), 1U);
}

}  // namespace
