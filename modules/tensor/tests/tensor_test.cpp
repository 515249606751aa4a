// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>
#include <set>
#include <tw/tensor.hpp>
#include <tw/tensor/tensor_snapshot.hpp>

namespace tensor_test {

TEST(FlatLayout, AlignsEveryTensorAndOverlapsNone) {
  const std::vector<int64_t> numels{3, 0, 16, 17, 1};
  const auto layout = tw::flat_layout(numels, 16);
  EXPECT_EQ(layout.offsets, (std::vector<int64_t>{0, 16, 16, 32, 64}));
  EXPECT_EQ(layout.numel, 80);
  EXPECT_EQ(tw::flat_layout(numels).numel, 3 + 16 + 17 + 1);
  EXPECT_THROW(tw::flat_layout(numels, 0), tw::ContractError);
}

TEST(ContentHash, IsOfTheElementsInOrder) {
  const at::Tensor plain = torch::arange(6, torch::kDouble).view({2, 3});
  const at::Tensor turned = plain.t().contiguous().t();
  ASSERT_FALSE(turned.is_contiguous());
  EXPECT_EQ(tw::content_hash(turned), tw::content_hash(plain));
  EXPECT_NE(tw::content_hash(plain.t()), tw::content_hash(plain));
  EXPECT_NE(tw::content_hash(plain + 1), tw::content_hash(plain));
  EXPECT_EQ(tw::content_hash(plain.clone().requires_grad_()), tw::content_hash(plain));
  const at::Tensor complex = torch::complex(plain, plain + 1);
  EXPECT_EQ(tw::content_hash(complex.conj()), tw::content_hash(complex.conj().clone().resolve_conj()));
  EXPECT_NE(tw::content_hash(complex.conj()), tw::content_hash(complex));
  EXPECT_EQ(tw::content_hash(torch::empty({0})), tw::content_hash(""));
}

// The meta device represents devices whose memory is not on the host.
TEST(ContentHash, RefusesWhatLiesElsewhere) {
  EXPECT_THROW((void)tw::content_hash(torch::ones({3}, torch::kMeta)), tw::ContractError);
  EXPECT_THROW((void)tw::content_hash(torch::ones({3}).to_sparse()), tw::ContractError);
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

TEST(FlatBuffer, MayLieInsideAnotherTensor) {
  const at::Tensor all = torch::zeros({10});
  const tw::FlatBuffer buffer(all.narrow(0, 4, 6));
  buffer.view(1, {2}).fill_(1);
  EXPECT_TRUE(all.equal(torch::tensor({0, 0, 0, 0, 0, 1, 1, 0, 0, 0}, torch::kFloat)));
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

// Every run of every small shape: the boxes hold the run's elements in order, at their positions, and there are no more boxes than needed.
TEST(NamedShard, ARunOfElementsIsAFewBoxes) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {1}, {5}, {3, 4}, {4, 1}, {2, 3, 4}, {3, 1, 2, 2}}) {
    const at::Tensor tensor = torch::arange(torch::zeros(shape).numel()).reshape(shape);
    const at::Tensor flat = tensor.flatten();
    for (int64_t begin = 0; begin < flat.numel(); ++begin) {
      for (int64_t count = 1; begin + count <= flat.numel(); ++count) {
        const at::Tensor run = flat.narrow(0, begin, count);
        const auto slices = tw::slices_of_run("w", shape, run, begin, tw::ShardKind::optimizer);
        EXPECT_LE(slices.size(), std::max<size_t>(1, 2 * shape.size() - 1));
        int64_t elements = 0;
        for (const tw::NamedShard& slice : slices) {
          at::Tensor box = tensor;
          for (size_t d = 0; d < shape.size(); ++d)
            box = box.narrow(static_cast<int64_t>(d), slice.offsets[d], slice.tensor.size(static_cast<int64_t>(d)));
          EXPECT_TRUE(slice.tensor.equal(box)) << shape << begin << " " << count;
          EXPECT_EQ(slice.tensor.data_ptr(), run.const_data_ptr<int64_t>() + elements);
          elements += slice.tensor.numel();
        }
        EXPECT_EQ(elements, count);
      }
    }
  }
}

TEST(NamedShard, AStackIsSplitIntoItsLayers) {
  const at::Tensor stack = torch::arange(12).reshape({3, 2, 2});
  const auto layers = tw::unstacked({"1.weight", stack}, "1.{}.weight");
  ASSERT_EQ(layers.size(), 3U);
  for (int64_t layer = 0; layer < 3; ++layer) {
    const auto& [name, tensor] = layers[static_cast<size_t>(layer)];
    EXPECT_EQ(name, tw::concat("1.", layer, ".weight"));
    EXPECT_TRUE(tensor.equal(stack[layer]));
    EXPECT_EQ(tensor.storage().nbytes(), tensor.nbytes()) << "one layer that is kept does not keep the stack";
  }
  EXPECT_EQ(tw::layer_name("{}.{}", 17), "17.{}") << "a parameter may be called {}";
  EXPECT_THROW((void)tw::layer_name("1.weight", 0), tw::ContractError);
  const auto plain = tw::unstacked({"0.weight", stack}, "");
  ASSERT_EQ(plain.size(), 1U);
  EXPECT_EQ(plain[0].name, "0.weight");
  EXPECT_TRUE(plain[0].tensor.is_same(stack));
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

TEST(TensorSnapshot, PutBackWhatTensorsHeldInTheirMemory) {
  const at::Tensor mean = torch::arange(4, torch::kFloat);
  const at::Tensor view = mean.narrow(0, 1, 2);
  const at::Tensor count = torch::tensor(3, torch::kLong);
  const tw::TensorSnapshot copies({mean, count});
  for (int time = 0; time < 2; ++time) {
    mean.fill_(7);
    count.add_(1);
    copies.restore();
    EXPECT_TRUE(view.equal(torch::tensor({1.0F, 2.0F})));
    EXPECT_EQ(count.item<int64_t>(), 3);
  }
}

TEST(TensorSnapshot, AreUnseenByGraphs) {
  const at::Tensor weight = torch::ones({2}).requires_grad_();
  const at::Tensor scale = torch::full({2}, 3.0F);
  const at::Tensor loss = (weight * scale).sum();
  {
    const tw::RestoreOnExit kept({weight, scale});
    scale.variable_data().fill_(5);
    weight.variable_data().fill_(5);
  }
  EXPECT_TRUE(weight.equal(torch::ones({2})));
  loss.backward();
  EXPECT_TRUE(weight.grad().equal(scale));
}

}  // namespace tensor_test
