// SPDX-License-Identifier: Apache-2.0
// Ranks of a mesh data x tensor. Gradients of replicated parameters differ between holders, as if each had added in its own order; afterwards all
// have the first holder's. Split parameters have a different size on each holder, so that buckets have different layouts.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <optional>
#include <tw/base/concat.hpp>
#include <tw/comm/mesh.hpp>
#include <tw/comm/replicas.hpp>
#include <tw/gradients.hpp>

namespace replicas_test {

using tw::testing::world;

tw::Mesh mesh() { return {world(), {{"data", world().size() % 2 == 0 ? world().size() / 2 : 1}, {"tensor", -1}}}; }

std::vector<tw::TensorSpec> specs_of(int tensor_rank) {
  return {{"split", {100 + 37 * tensor_rank}, at::kFloat}, {"a", {70}, at::kFloat}, {"b", {3, 50}, at::kFloat}, {"c", {90}, at::kDouble}};
}

tw::ModelPartsList parts_of(const tw::Communicator& tensor) {
  auto parts = std::make_shared<tw::ModelParts>(tw::ModelParts{tensor.dup()});
  parts->replicated.push_back({tensor.dup(), {"a", "b", "c", "frozen"}});
  return {parts};
}

TEST(Replicas, HaveTheSameBits) {
  const tw::Mesh axes = mesh();
  const tw::Communicator& tensor = axes["tensor"];
  const auto specs = specs_of(tensor.rank());
  for (const auto sharding : {tw::Sharding::none, tw::Sharding::slices, tw::Sharding::tensors}) {
    for (const bool release : {false, true}) {
      if (release && sharding == tw::Sharding::none) continue;
      tw::Reducer reducer(axes["data"], specs,
                          {.reduction = tw::Reduction::sum,
                           .buckets = {.first_bucket_bytes = 512, .bucket_bytes = 1024},
                           .overlap = true,
                           .sharding = sharding,
                           .release = release,
                           .parts = parts_of(tensor)});
      for (int step = 0; step < 2; ++step) {
        reducer.begin();
        for (size_t id = specs.size(); id-- > 0;) {
          reducer.mark_ready(static_cast<int64_t>(id), torch::full(specs[id].shape, 1 + tensor.rank(), specs[id].dtype));
        }
        reducer.wait();
        const auto expected = [&](size_t id) { return static_cast<double>(axes["data"].size() * (id == 0 ? 1 + tensor.rank() : 1)); };
        if (sharding == tw::Sharding::none) {
          for (size_t id = 0; id < specs.size(); ++id) {
            EXPECT_TRUE(reducer.gradient(static_cast<int64_t>(id)).eq(expected(id)).all().item<bool>()) << specs[id].name;
          }
          continue;
        }
        for (const tw::ShardPiece& piece : reducer.pieces()) {
          const at::Tensor share = reducer.shard(piece.bucket);
          const int64_t begin = piece.offset - (sharding == tw::Sharding::slices ? axes["data"].rank() * share.numel() : 0);
          EXPECT_TRUE(share.narrow(0, begin, piece.count).eq(expected(static_cast<size_t>(piece.gradient))).all().item<bool>()) << piece.gradient;
        }
      }
    }
  }
}

TEST(Replicas, MustBeginEqual) {
  const tw::Mesh axes = mesh();
  const tw::Communicator& tensor = axes["tensor"];
  const at::Tensor equal = torch::ones({3});
  at::Tensor other = torch::zeros({4});
  const std::vector<tw::NamedTensor> tensors{{"split", torch::full({2}, int{tensor.rank()})}, {"a", equal}, {"b", other}};
  tw::expect_equal_replicas(parts_of(tensor), tensors);
  if (tensor.rank() == 1) other[3] = 1e-7;
  if (tensor.size() == 1) return;
  const std::string message = tw::testing::message_of([&] { tw::expect_equal_replicas(parts_of(tensor), tensors); });
  EXPECT_NE(message.find("'b' is replicated, but differs between ranks 0 and 1"), std::string::npos) << message;
}

/// A model of stages. The first and the last share one weight under different names; each stage also has its own weight.
class Stages : public tw::TrainableModel {
 public:
  explicit Stages(const tw::Communicator& comm) {
    const bool first = comm.rank() == 0;
    own_ = {tw::concat("own_", int{comm.rank()}), torch::ones({2}, torch::requires_grad())};
    if (first || comm.rank() == comm.size() - 1) tied_ = tw::NamedTensor{first ? "embedding" : "head", torch::ones({3}, torch::requires_grad())};
  }
  std::vector<std::string> axes() const override { return {"stage"}; }
  tw::ModelTensors tensors() const override {
    tw::ModelTensors tensors{.parameters = {own_}};
    if (tied_) tensors.parameters.push_back(*tied_);
    return tensors;
  }
  std::vector<tw::OptimizedTensor> optimized_tensors() const override {
    std::vector<tw::OptimizedTensor> all{{own_.tensor, {tw::whole(own_.name, own_.tensor, tw::ShardKind::parameter)}}};
    if (tied_) all.push_back({tied_->tensor, {tw::whole("embedding", tied_->tensor, tw::ShardKind::parameter)}});
    return all;
  }
  at::Tensor forward(const at::Tensor& inputs) override { return inputs; }

 private:
  tw::NamedTensor own_;
  std::optional<tw::NamedTensor> tied_;
};

TEST(Replicas, AreWhatSeveralRanksOfAModelHave) {
  const auto parts = tw::model_parts(world(), Stages(world()));
  EXPECT_EQ(parts->ranks.size(), world().size());
  const bool first = world().rank() == 0;
  const bool last = world().rank() == world().size() - 1;
  if (world().size() == 1 || (!first && !last)) {
    EXPECT_TRUE(parts->replicated.empty());
    return;
  }
  ASSERT_EQ(parts->replicated.size(), 1U);
  EXPECT_EQ(parts->replicated[0].holders.size(), 2);
  EXPECT_EQ(parts->replicated[0].names, std::vector<std::string>{first ? "embedding" : "head"});
  EXPECT_EQ(parts->counted_elsewhere, first ? std::set<std::string>{} : std::set<std::string>{"head"});
}

// Each element counts once, though replicated ones are on all holders.
TEST(Replicas, CountOnceInANorm) {
  const tw::Mesh axes = mesh();
  const tw::Communicator& tensor = axes["tensor"];
  auto parts = std::make_shared<tw::ModelParts>(tw::ModelParts{tensor.dup()});
  if (tensor.rank() > 0) parts->counted_elsewhere = {"a"};
  at::Tensor split = torch::zeros({2}, torch::requires_grad());
  at::Tensor a = torch::zeros({4}, torch::requires_grad());
  const at::Tensor none = torch::zeros({4}, torch::requires_grad());
  const std::vector<tw::NamedTensor> parameters{{"split", split}, {"a", a}, {"none", none}};
  EXPECT_THROW(tw::clip_gradient_norm(parameters, {parts}, 1), tw::ContractError) << "no gradient";
  split.mutable_grad() = torch::full({2}, 3.0F);
  a.mutable_grad() = torch::full({4}, 2.0F);
  const double norm = std::sqrt(18.0 * tensor.size() + 16);
  EXPECT_NEAR(tw::clip_gradient_norm(parameters, {parts}, 1000), norm, 1e-12 * norm);
  EXPECT_EQ(a.grad()[0].item<float>(), 2);
  EXPECT_NEAR(tw::clip_gradient_norm(parameters, {parts}, norm / 2), norm, 1e-12 * norm);
  EXPECT_NEAR(split.grad()[0].item<float>(), 1.5, 1e-6);
  EXPECT_NEAR(a.grad()[0].item<float>(), 1, 1e-6);
}

TEST(ClipGradientNorm, TakesSparseGradients) {
  torch::nn::Embedding rows(torch::nn::EmbeddingOptions(5, 2).sparse(true));
  const auto pass = [&] {
    rows->zero_grad();
    (3 * rows(torch::tensor({1, 4, 1}))).sum().backward();
  };
  pass();
  ASSERT_TRUE(rows->weight.grad().is_sparse());
  const double norm = std::sqrt(2.0 * (36 + 9));  // two rows, one of which occurs twice
  EXPECT_NEAR(tw::clip_gradient_norm(*rows, norm / 3), norm, 1e-6 * norm);
  EXPECT_NEAR(rows->weight.grad().to_dense()[1][0].item<double>(), 2, 1e-5);
}

}  // namespace replicas_test
