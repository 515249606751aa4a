// SPDX-License-Identifier: Apache-2.0
// Programs that FullySharded rejects; the error on every rank names the parameter or rank.
#include "message_of.hpp"
#include "sharded_training.hpp"

namespace sharded_refusals_test {

using namespace tw::testing::sharded;
using tw::testing::message_of;
using tw::testing::world;

TEST(ShardedRefusals, NamesAParameterWhosePointerIsTaken) {
  ShardedNet f;
  f.loss().backward();
  EXPECT_NE(message_of([&] { f.parameter("3.weight").data_ptr(); }).find("3.weight"), std::string::npos);
  f.optimizer.step();
  f.loss().backward();
}

// Common ways to fill, clip and average models, including some that bypass autograd or use views.
TEST(ShardedRefusals, NamesAParameterThatIsChangedInPlace) {
  const std::vector<std::function<void(at::Tensor)>> ways{
      [](at::Tensor weight) { weight.mul_(2); },
      [](at::Tensor weight) { weight.data().clamp_(-0.1, 0.1); },
      [](at::Tensor weight) { weight.detach().zero_(); },
      [](at::Tensor weight) { weight.t().narrow(0, 1, 1).copy_(torch::ones({11})); },
      [](at::Tensor weight) { torch::nn::init::xavier_normal_(weight); },
      [](at::Tensor weight) { torch::mul_out(weight, torch::ones({11, 13}), torch::ones({11, 13})); },
      [](at::Tensor weight) { torch::_foreach_add_({torch::ones({1}), weight}, 1); },
      [](at::Tensor weight) { torch::embedding_renorm_(weight, torch::tensor({1}), 0.1, 2); },
  };
  for (tw::FullyShardedOptions options : modes()) {
    if (options.unit_bytes > 1000) continue;  // units are kept, so operators may not be watched
    options.resident_bytes = 0;
    const auto reference = plain().make();
    const auto net = plain().make();
    tw::FullySharded sharded(world(), *net, options);
    for (size_t i = 0; i < ways.size(); ++i) {
      const at::NoGradGuard no_grad;
      const std::string error = message_of<tw::ContractError>([&] { ways[i](net->named_parameters()["3.weight"]); });
      EXPECT_NE(error.find("would change parameter 3.weight in place"), std::string::npos) << text_of(options) << ", way " << i << ": " << error;
    }
    plain().loss(*net, my_samples(0), 0).backward();
    expect_equal(*net, *reference, text_of(options));
  }
}

// Operators on kept units may not be watched. Then some rank's pass finds the change, and all ranks report it.
TEST(ShardedRefusals, FindsAParameterThatWasChangedBetweenTheForwardAndTheBackwardPass) {
  const std::vector<std::function<void(at::Tensor)>> ways{
      [](at::Tensor weight) { weight.data().clamp_(-0.1, 0.1); },
      [](at::Tensor weight) { weight.detach().zero_(); },
      [](at::Tensor weight) { weight.set_data(torch::ones({11, 13}, torch::kDouble)); },
  };
  for (const tw::FullyShardedOptions& options : modes()) {
    for (size_t i = 0; i < ways.size(); ++i) {
      const auto net = plain().make();
      tw::FullySharded sharded(world(), *net, options);
      const at::Tensor loss = plain().loss(*net, my_samples(0), 0);
      const std::string error = message_of<tw::ContractError>([&] {
        ways[i](net->named_parameters()["3.weight"]);
        world().barrier();
        loss.backward();
      });
      EXPECT_NE(error.find("its slices"), std::string::npos) << text_of(options) << ", way " << i << ": " << error;
    }
  }
}

TEST(ShardedRefusals, NamesAParameterThatIsGivenOtherMemory) {
  for (const tw::FullyShardedOptions& options : modes()) {
    const auto net = plain().make();
    tw::FullySharded sharded(world(), *net, options);
    net->named_parameters()["3.weight"].set_data(torch::ones({11, 13}, torch::kDouble));
    const std::string error = message_of<tw::ContractError>([&] { plain().loss(*net, my_samples(0), 0).backward(); });
    EXPECT_NE(error.find("3.weight was given other values by set_data()"), std::string::npos) << error;
  }
}

TEST(ShardedRefusals, NamesTensorsThatShareMemory) {
  const at::Tensor weight = torch::ones({4, 6}).requires_grad_();
  const auto error = [&](const at::Tensor& other) {
    return message_of([&] { tw::FullySharded(world(), {{"weight", weight}, {"other", other}}, {.reduction = tw::Reduction::mean}); });
  };
  EXPECT_NE(error(weight.detach().requires_grad_()).find("weight and other are two tensors in the same memory"), std::string::npos);
  EXPECT_NE(error(weight.detach().t()).find("weight and other"), std::string::npos) << "a frozen one";
  EXPECT_NE(error(weight.detach().narrow(0, 3, 1)).find("weight and other"), std::string::npos) << "a part";

  const at::Tensor parts = torch::randn({2, 5}, torch::kDouble);  // in one storage, without common elements
  const at::Tensor a = parts[0].requires_grad_();
  const at::Tensor b = parts[1].requires_grad_();
  tw::FullySharded sharded(world(), {{"a", a}, {"b", b}}, {.reduction = tw::Reduction::mean, .unit_bytes = 1});
  EXPECT_TRUE(value_of(a).equal(parts[0]));
  EXPECT_TRUE(value_of(b).equal(parts[1]));
}

TEST(ShardedRefusals, IsMadeOncePerParameterAndAlone) {
  for (const tw::FullyShardedOptions& options : modes()) {
    const auto net = plain().make();
    const auto sharded = std::make_unique<tw::FullySharded>(world(), *net, options);
    for (const bool used : {false, true}) {
      if (used) plain().loss(*net, my_samples(0), 0).backward();
      EXPECT_NE(message_of([&] { tw::FullySharded(world(), *net, options); }).find("0.weight is or was sharded"), std::string::npos);
      EXPECT_NE(message_of([&] { tw::DataParallel(world(), *net, {.reduction = tw::Reduction::mean}); }).find("0.weight is or was sharded"),
                std::string::npos);
      EXPECT_NE(message_of([&] { tw::synchronize(world(), *net); }).find("0.weight is or was sharded"), std::string::npos);
    }
    plain().loss(*net, my_samples(1), 1).backward();
  }
  const auto net = plain().make();
  {
    const tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean});
  }
  EXPECT_NE(message_of([&] { tw::FullySharded(world(), *net, {.reduction = tw::Reduction::mean}); }).find("0.weight is or was sharded"),
            std::string::npos);
}

TW_TEST_ON(ShardedRefusals, NamesRanksWhoseOptionsDiffer, {.least = 2}) {
  const auto net = plain().make();
  const int64_t unit_bytes = world().rank() == 1 ? 100 : 200;
  const std::string error = message_of([&] { tw::FullySharded(world(), *net, {.reduction = tw::Reduction::mean, .unit_bytes = unit_bytes}); });
  EXPECT_NE(error.find("unit_bytes"), std::string::npos) << error;
}

TEST(ShardedRefusals, NamesParametersWithSparseGradients) {
  using torch::nn::EmbeddingBagOptions;
  using torch::nn::EmbeddingOptions;
  const auto error = [](const torch::nn::Sequential& net) {
    return message_of([&] { tw::FullySharded(world(), *net, {.reduction = tw::Reduction::mean}); });
  };
  const std::string expected = "sparse gradients cannot be sharded: 0.weight";
  const std::string of_embedding = error(torch::nn::Sequential(torch::nn::Embedding(EmbeddingOptions(5, 3).sparse(true)), torch::nn::Linear(3, 2)));
  EXPECT_NE(of_embedding.find(expected), std::string::npos) << of_embedding;
  const std::string of_bag = error(torch::nn::Sequential(torch::nn::EmbeddingBag(EmbeddingBagOptions(5, 3).sparse(true).mode(torch::kSum))));
  EXPECT_NE(of_bag.find(expected), std::string::npos) << of_bag;

  // An unknown function's gradient is checked only when it exists.
  const at::Tensor table = torch::randn({7, 4}).requires_grad_();
  tw::FullySharded sharded(world(), {{"table", table}}, {.reduction = tw::Reduction::mean});
  const std::string later = message_of([&] { torch::embedding(table, torch::tensor({1, 2}), -1, false, true).sum().backward(); });
  EXPECT_NE(later.find("gradient table float32 [7, 4] is sparse"), std::string::npos) << later;
}

TEST(ShardedRefusals, NamesParametersThatComeLater) {
  auto net = layers();
  tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean});
  net->register_parameter("late", torch::ones({2}));
  const std::string error = message_of([&] { net->forward(torch::ones({2, 8})).sum().backward(); });
  EXPECT_NE(error.find("late is a parameter of the module"), std::string::npos) << error;
}

// In a forward pass, with or without a graph, and whether or not the units' sizes differ: before any rank uses another unit's values.
TW_TEST_ON(ShardedRefusals, NamesRanksThatGoOtherWays, {.least = 2}) {
  for (const int64_t rows : {8, 16}) {
    for (const bool evaluates : {false, true}) {
      const at::Tensor a = torch::ones({8, 8}).requires_grad_();
      const at::Tensor b = torch::ones({rows, 8}).requires_grad_();
      tw::FullySharded sharded(world(), {{"a", a}, {"b", b}}, {.reduction = tw::Reduction::mean, .unit_bytes = 1});
      const bool swaps = world().rank() == 1;
      const torch::AutoGradMode mode(!evaluates);
      const auto pass = [&] {
        const at::Tensor first = (swaps ? b : a).sum();
        return first + (swaps ? a : b).sum();
      };
      for (int time = 0; time < 2; ++time) {
        const std::string error = message_of<tw::ContractError>([&] { pass(); });
        EXPECT_NE(error.find("different orders"), std::string::npos) << error;
        EXPECT_NE(error.find("rank 0: a\n  rank 1: b"), std::string::npos) << error;
      }
    }
  }
}

// Each would wait in the other model's exchange.
TW_TEST_ON(ShardedRefusals, NamesModelsThatRanksCallInOtherOrders, {.least = 2}) {
  const tw::Communicator comm = world().dup();
  const at::Tensor a = torch::ones({8, 8}).requires_grad_();
  const at::Tensor b = torch::ones({8, 8}).requires_grad_();
  tw::FullySharded first(comm, {{"a", a}}, {.reduction = tw::Reduction::mean});
  tw::FullySharded second(comm, {{"b", b}}, {.reduction = tw::Reduction::mean});
  for (int step = 0; step < 2; ++step) {  // in the same order on all ranks
    (a.sum() * 2 + b.sum()).backward();
    EXPECT_TRUE(first.slices()[0].grad().eq(2 * (step + 1)).all().item<bool>());
    EXPECT_TRUE(second.slices()[0].grad().eq(step + 1).all().item<bool>());
    first.slices_changed();
    second.slices_changed();
  }
  const bool swaps = world().rank() == 1;
  for (int time = 0; time < 2; ++time) {
    const std::string error = message_of<tw::ContractError>([&] { (swaps ? b : a).sum().add((swaps ? a : b).sum()).backward(); });
    EXPECT_NE(error.find("different orders"), std::string::npos) << error;
    EXPECT_NE(error.find("rank 0: a, of model 1\n  rank 1: b, of model 2"), std::string::npos) << error;
  }
  const at::Tensor c = torch::ones({8, 8}).requires_grad_();
  tw::FullySharded third(comm, {{"c", c}}, {.reduction = tw::Reduction::mean});  // independent of the others
  c.sum().backward();
}

// One rank has all of its gradients while another still gathers. A group that throws also wakes the ranks that hold the same slices.
TW_TEST_ON(ShardedRefusals, NamesARankThatLeavesALayerOut, {.least = 2}) {
  const at::Tensor a = torch::ones({8, 8}).requires_grad_();
  const at::Tensor b = torch::ones({8, 8}).requires_grad_();
  tw::FullySharded sharded(world(), {{"a", a}, {"b", b}}, {.reduction = tw::Reduction::mean, .unit_bytes = 1});
  const std::string error = message_of([&] {
    const at::Tensor first = a.sum();
    (world().rank() == 1 ? first : first + b.sum()).backward();
  });
  EXPECT_NE(error.find("different orders"), std::string::npos) << error;
}

TW_TEST_ON(ShardedRefusals, ReleasesReplicasWhereAGroupThrows, {.least = 4}) {
  const int rank = world().rank();
  const tw::Communicator group = world().split(rank / 2, rank);
  const tw::Communicator replicas = world().split(rank % 2, rank);
  const at::Tensor a = torch::ones({8, 8}).requires_grad_();
  const at::Tensor b = torch::ones({8, 8}).requires_grad_();
  tw::FullySharded sharded(group, {{"a", a}, {"b", b}}, {.reduction = tw::Reduction::mean, .unit_bytes = 1}, {.replicas = &replicas});
  const std::string error = message_of([&] {
    const at::Tensor first = (rank == 1 ? b : a).sum();
    (first + (rank == 1 ? a : b).sum()).backward();
  });
  EXPECT_NE(error.find("different orders"), std::string::npos) << error;
}

TEST(ShardedRefusals, ValuesOutliveWhatShardedThem) {
  const auto net = plain().make();
  std::vector<at::Tensor> slices;
  {
    tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean});
    slices = sharded.slices();
  }
  for (const at::Tensor& slice : slices) slice.add_(1);
  const std::string error = message_of([&] { net->named_parameters()["0.weight"].clone(); });
  EXPECT_NE(error.find("the object that gathered it no longer exists"), std::string::npos) << error;
}

}  // namespace sharded_refusals_test
