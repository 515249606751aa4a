// SPDX-License-Identifier: Apache-2.0
// Unusual gradients: each must equal that of one process with the samples of all ranks. Tolerance as in equivalence_test.cpp: 1e-12 relative in the
// 2-norm, float64.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <tw/data_parallel.hpp>

namespace odd_gradients_test {

using tw::testing::world;

constexpr int64_t each = 5;  // samples of one rank

at::Tensor mine(const at::Tensor& all) { return all.narrow(0, world().rank() * each, each); }

at::Tensor inputs(std::vector<int64_t> shape, uint64_t seed) {
  torch::manual_seed(seed);
  shape.insert(shape.begin(), world().size() * each);
  return torch::randn(shape, torch::kDouble);
}

void expect_close(const at::Tensor& ours, const at::Tensor& reference, const std::string& what) {
  ASSERT_TRUE(ours.defined()) << what;
  const at::Tensor a = ours.is_sparse() ? ours.to_dense() : ours;
  const at::Tensor b = reference.is_sparse() ? reference.to_dense() : reference;
  EXPECT_LE((a - b).norm().item<double>(), 1e-12 * b.norm().item<double>()) << what;
}

const std::vector<std::optional<bool>> overlaps{false, true};
const tw::BucketOptions small{.first_bucket_bytes = 128, .bucket_bytes = 512};

TEST(OddGradients, Complex) {
  for (const auto& overlap : overlaps) {
    torch::manual_seed(3);
    const auto reference = torch::randn({4, 3}, torch::dtype(torch::kComplexDouble).requires_grad(true));
    const auto ours = reference.detach().clone().requires_grad_();
    const tw::DataParallel parallel(world(), {{"w", ours}}, {.reduction = tw::Reduction::mean, .overlap = overlap, .check_finite = true});
    const at::Tensor x = inputs({4}, 1).to(torch::kComplexDouble);
    const auto loss = [](const at::Tensor& in, const at::Tensor& w) { return torch::matmul(in, w).abs().pow(2).sum(1).mean(); };
    loss(x, reference).backward();
    loss(mine(x), ours).backward();
    expect_close(ours.grad(), reference.grad(), "w");
    EXPECT_TRUE(parallel.gradients_finite());
  }
}

TEST(OddGradients, NotContiguous) {
  torch::manual_seed(3);
  const auto reference = torch::randn({3, 4, 5, 5}, torch::kDouble).to(at::MemoryFormat::ChannelsLast).requires_grad_();
  const auto ours = reference.detach().clone(at::MemoryFormat::ChannelsLast).requires_grad_();
  ASSERT_FALSE(ours.is_contiguous());
  const tw::DataParallel parallel(world(), {{"w", ours}}, {.reduction = tw::Reduction::mean});
  torch::optim::SGD sgd({ours}, torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::SGD reference_sgd({reference}, torch::optim::SGDOptions(0.1).momentum(0.9));
  const at::Tensor x = inputs({4, 7, 7}, 1);
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    reference_sgd.zero_grad();
    torch::conv2d(x, reference).pow(2).mean().backward();
    torch::conv2d(mine(x), ours).pow(2).mean().backward();
    expect_close(ours.grad(), reference.grad(), "w");
    sgd.step();
    reference_sgd.step();
  }
  expect_close(ours, reference, "w");
}

/// One embedding with a sparse gradient, one with a dense one, and a layer on top.
struct WordNet : torch::nn::Module {
  WordNet() {
    torch::manual_seed(7);
    sparse = register_module("sparse", torch::nn::Embedding(torch::nn::EmbeddingOptions(50, 6).sparse(true)));
    dense = register_module("dense", torch::nn::Embedding(20, 6));
    top = register_module("top", torch::nn::Linear(6, 3));
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& words) { return top(sparse(words) + dense(words.remainder(20))); }
  torch::nn::Embedding sparse{nullptr};
  torch::nn::Embedding dense{nullptr};
  torch::nn::Linear top{nullptr};
};

TEST(OddGradients, SparseRowsStaySparse) {
  for (const auto reduction : {tw::Reduction::mean, tw::Reduction::sample_weighted, tw::Reduction::sum}) {
    for (const auto& overlap : overlaps) {
      WordNet reference;
      WordNet ours;
      tw::DataParallel parallel(world(), ours, {.reduction = reduction, .buckets = small, .overlap = overlap, .check_finite = true});
      parallel.set_samples(each);
      torch::optim::SGD sgd(ours.parameters(), 0.1);
      torch::optim::SGD reference_sgd(reference.parameters(), 0.1);
      for (uint64_t step = 0; step < 4; ++step) {
        torch::manual_seed(step);
        const at::Tensor words = torch::randint(50, {world().size() * each}, torch::kLong);
        const auto loss = [&](WordNet& net, const at::Tensor& some) {
          const at::Tensor all = net.forward(some).pow(2).sum(1);
          return reduction == tw::Reduction::sum ? all.sum() : all.mean();
        };
        sgd.zero_grad();
        reference_sgd.zero_grad();
        loss(reference, words).backward();
        loss(reference, words).backward();  // two passes: rows accumulate
        loss(ours, mine(words)).backward();
        loss(ours, mine(words)).backward();
        EXPECT_TRUE(ours.sparse->weight.grad().is_sparse());
        for (const auto& entry : ours.named_parameters())
          expect_close(entry.value().grad(), reference.named_parameters()[entry.key()].grad(), entry.key());
        EXPECT_TRUE(parallel.gradients_finite());
        sgd.step();
        reference_sgd.step();
      }
    }
  }
}

TEST(OddGradients, SparseRowsOfSomeRanksOnly) {
  WordNet ours;
  tw::DataParallel parallel(world(), ours, {.reduction = tw::Reduction::sum});
  const at::Tensor words = torch::tensor({3, 3, 9}, torch::kLong);
  at::Tensor loss = ours.dense->forward(words).sum();
  if (world().rank() == 0) loss = loss + ours.sparse->forward(words).sum();
  loss.backward();
  at::Tensor expected = torch::zeros({50, 6}, torch::kDouble);
  expected[3] = 2;
  expected[9] = 1;
  EXPECT_TRUE(ours.sparse->weight.grad().to_dense().equal(expected));
}

TEST(OddGradients, SparseOnesMustBeKnown) {
  const auto weight = torch::ones({5, 2}, torch::requires_grad());
  const auto loss = [&] { return torch::embedding(weight, torch::tensor({1, 2}), -1, false, /*sparse=*/true).sum(); };
  {
    const tw::DataParallel named(world(), {{"words", weight}}, {.reduction = tw::Reduction::sum, .sparse = {"words"}});
    loss().backward();
    EXPECT_EQ(weight.grad().to_dense()[1][0].item<float>(), static_cast<float>(world().size()));
    weight.mutable_grad() = at::Tensor();
  }
  const tw::DataParallel unnamed(world(), {{"words", weight}}, {.reduction = tw::Reduction::sum});
  try {
    loss().backward();
    ADD_FAILURE() << "no exception";
  } catch (const tw::ContractError& error) {
    EXPECT_NE(std::string(error.what()).find("words float32 [5, 2] is sparse: name it in ReducerOptions::sparse"), std::string::npos) << error.what();
  }
  EXPECT_THROW(tw::DataParallel(world(), {{"words", weight}}, {.reduction = tw::Reduction::sum, .sparse = {"worlds"}}), tw::ContractError);
}

TEST(OddGradients, NoSyncAccumulatesAndReducesOnce) {
  for (const auto reduction : {tw::Reduction::mean, tw::Reduction::sample_weighted, tw::Reduction::sum}) {
    for (const auto& overlap : overlaps) {
      const auto reference = torch::ones({4}, torch::dtype(torch::kDouble).requires_grad(true));
      const auto ours = torch::ones({4}, torch::dtype(torch::kDouble).requires_grad(true));
      const auto rarely = torch::ones({2}, torch::dtype(torch::kDouble).requires_grad(true));
      const auto rarely_reference = torch::ones({2}, torch::dtype(torch::kDouble).requires_grad(true));
      tw::DataParallel parallel(world(), {{"w", ours}, {"rarely", rarely}}, {.reduction = reduction, .overlap = overlap});
      parallel.set_samples(each);
      const auto loss = [&](const at::Tensor& x, const at::Tensor& w) {
        const at::Tensor all = (x * w).pow(2).sum(1);
        return reduction == tw::Reduction::sum ? all.sum() : all.mean();
      };
      // Two windows without zero_grad() in between; the second is cut short. `rarely` is used only in a pass that is not reduced.
      for (const int passes : {3, 1, 2}) {
        for (int pass = 0; pass < passes; ++pass) {
          const at::Tensor x = inputs({4}, static_cast<uint64_t>(10 * passes + pass));
          (loss(x, reference) + (pass == 0 && passes == 3 ? loss(x.narrow(1, 0, 2), rarely_reference) : torch::zeros({}))).backward();
          std::optional<tw::DataParallel::NoSync> local;
          if (pass + 1 < passes) local.emplace(parallel.no_sync());
          const int64_t before = parallel.reducer().steps();
          (loss(mine(x), ours) + (pass == 0 && passes == 3 ? loss(mine(x).narrow(1, 0, 2), rarely) : torch::zeros({}))).backward();
          EXPECT_EQ(parallel.reducer().steps(), before + (local ? 0 : 1));
        }
        expect_close(ours.grad(), reference.grad(), "w");
        expect_close(rarely.grad(), rarely_reference.grad(), "rarely");
      }
    }
  }
}

TEST(OddGradients, ARankWithoutABackwardOfItsOwnJoins) {
  const auto w = torch::ones({3}, torch::requires_grad());
  tw::DataParallel parallel(world(), {{"w", w}}, {.reduction = tw::Reduction::sample_weighted});
  for (int step = 0; step < 3; ++step) {
    w.mutable_grad() = at::Tensor();
    const bool idle = world().size() > 1 && world().rank() == step % world().size();
    parallel.set_samples(idle ? 0 : 2);
    if (idle) {
      parallel.join_backward();
    } else {
      (w * 5).sum().backward();
    }
    EXPECT_NEAR(w.grad()[0].item<double>(), 5, 1e-5);
  }
}

// With overlap, many buckets, and gradients that do not arrive in reverse order of registration: from the second step on, buckets follow the arrival,
// equally on all ranks, and nothing else changes.
TEST(OddGradients, BucketsFollowTheOrderOfArrival) {
  std::vector<tw::NamedTensor> parameters;
  for (int i = 0; i < 8; ++i) parameters.push_back({tw::concat("p", i), torch::ones({20}, torch::dtype(torch::kDouble).requires_grad(true))});
  const auto loss = [&](int step) {  // a chain in which parameter 0 is used last, so its gradient arrives first
    at::Tensor x = torch::full({20}, 1.0 + world().rank() + step, torch::kDouble);
    for (size_t i = parameters.size(); i-- > 0;) x = x * parameters[i].tensor;
    return x.sum();
  };
  const tw::ReducerOptions options{.reduction = tw::Reduction::sum, .buckets = small, .overlap = true};
  tw::DataParallel parallel(world(), parameters, options);
  ASSERT_GT(parallel.plan().buckets.size(), 2U);
  const auto step = [&](int number) {
    for (auto& parameter : parameters) parameter.tensor.mutable_grad() = at::Tensor();
    loss(number).backward();
    double expected = 0;
    for (int rank = 0; rank < world().size(); ++rank) expected += 1.0 + rank + number;
    for (auto& parameter : parameters) EXPECT_TRUE(parameter.tensor.grad().eq(expected).all().item<bool>()) << parameter.name << " step " << number;
  };
  step(0);
  if (world().size() > 1) {
    EXPECT_EQ(parallel.reducer().arrival_order(), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(parallel.plan().buckets.front().gradients.front(), 0);
  }
  step(1);
  step(2);
  auto known = options;
  known.arrival_order = {3, 2, 1, 0, 7, 6, 5, 4};
  const tw::DataParallel again(world(), parameters, known);
  EXPECT_EQ(again.plan().buckets.front().gradients.front(), 3);
}

}  // namespace odd_gradients_test
