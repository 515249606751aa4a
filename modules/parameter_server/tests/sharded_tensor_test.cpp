// SPDX-License-Identifier: Apache-2.0
// Sharded tensors: every push counts once, from every rank, through memory and by messages. Values are integers below 2^24, so that sums are exact in
// float32 in any order.
#include <torch/torch.h>

#include <random>
#include <tw/comm.hpp>
#include <tw/parameter_server.hpp>

#include "message_of.hpp"
#include "mpi_test.hpp"

namespace tw::parameter_server {
namespace sharded_tensor_test {

using tw::testing::world;

class ShardedTensors : public ::testing::TestWithParam<bool> {
 protected:
  static ShardedTensorOptions options(std::vector<Rule> rules = {}) { return {.rules = std::move(rules), .share_memory = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Through, ShardedTensors, ::testing::Values(true, false),
                         [](const auto& through) { return through.param ? "memory" : "messages"; });

at::Tensor pulled(const ShardedTensor& centre) { return centre.prefetch().take(); }

TEST_P(ShardedTensors, AddWhatAllRanksPush) {
  const std::vector<std::vector<int64_t>> shapes{{1}, {1024}, {911, 101}, {0}};
  const int p = world().size();
  for (const auto& shape : shapes) {
    ShardedTensor centre(world(), torch::full(shape, world().rank() == 0 ? 7.0 : -1.0), options());
    constexpr int rounds = 100;
    for (int round = 1; round <= rounds; ++round) {
      centre.push(torch::full(shape, world().rank() + 1.0)).wait();
      barrier(world());
      const at::Tensor seen = pulled(centre);
      EXPECT_TRUE(seen.equal(torch::full(shape, 7.0 + round * p * (p + 1) / 2.0))) << "round " << round << ", shape " << shape;
      barrier(world());
    }
    centre.finish();
  }
}

TEST_P(ShardedTensors, ConserveWhatIsPushedInAnyOrder) {
  constexpr int64_t operations = 10000;
  constexpr int64_t numel = 1000;
  ShardedTensor centre(world(), torch::zeros({numel}), options());
  std::mt19937 random(static_cast<unsigned>(17 + world().rank()));
  at::Tensor mine = torch::zeros({numel});
  std::vector<ShardedTensor::Handle> handles;
  for (int64_t i = 0; i < operations / world().size(); ++i) {
    switch (random() % 4) {
      case 0: pulled(centre); break;
      case 1:
        if (!handles.empty()) handles.back().wait();
        break;
      default: {
        const at::Tensor pushed = torch::full({numel}, static_cast<double>(random() % 100));
        mine += pushed;
        handles.push_back(centre.push(pushed));
      }
    }
  }
  for (auto& handle : handles) handle.wait();
  centre.finish();
  allreduce(world(), mine, ReduceOp::sum);
  EXPECT_TRUE(pulled(centre).equal(mine));
  centre.finish();
}

TEST_P(ShardedTensors, KeepTheOrderOfEachClient) {
  constexpr int64_t numel = 600000;  // several pieces per message
  ShardedTensor centre(world(), torch::zeros({numel}), options());
  if (world().rank() == world().size() - 1) {
    for (int i = 0; i < 20; ++i) {
      centre.push(torch::full({numel}, static_cast<double>(i)), "copy");
      EXPECT_TRUE(pulled(centre).equal(torch::full({numel}, static_cast<double>(i))));
      centre.push({torch::ones({numel})});
    }
  }
  centre.finish();
  EXPECT_TRUE(pulled(centre).equal(torch::full({numel}, 20.0)));
  centre.finish();
}

TEST_P(ShardedTensors, HaveAnyFloatingPointType) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    ShardedTensor centre(world(), torch::zeros({33}, dtype), options());
    centre.push(torch::ones({33}, dtype)).wait();
    centre.finish();
    EXPECT_TRUE(pulled(centre).equal(torch::full({33}, world().size(), dtype))) << dtype;
    centre.finish();
  }
  EXPECT_THROW(ShardedTensor(world(), torch::zeros({3}, at::kLong), options()), ContractError);
}

TEST_P(ShardedTensors, KeepTheStateOfTheirRules) {
  const at::Tensor start = torch::linspace(-1, 1, 50, at::kDouble);
  ShardedTensor centre(world(), start, options({rules::adam({.lr = 0.1})}));
  const at::Tensor reference = start.clone().requires_grad_();
  torch::optim::Adam adam({reference}, torch::optim::AdamOptions(0.1));
  for (int step = 0; step < 6; ++step) {
    const at::Tensor gradient = torch::cos(start * (step + 1));
    if (step % world().size() == world().rank()) centre.push(gradient).wait();
    barrier(world());
    reference.mutable_grad() = gradient;
    adam.step();
  }
  // Both follow the formula in float64, and round each of some 20 operations per step by 1e-16 of numbers below 2.
  EXPECT_TRUE(pulled(centre).allclose(reference.detach(), 0, 1e-13));
  centre.finish();
}

TEST_P(ShardedTensors, MayLieOnSomeRanksAlone) {
  if (world().size() < 2) GTEST_SKIP() << "one rank serves and trains";
  ShardedTensorOptions o = options();
  o.servers = {world().size() - 1};
  ShardedTensor centre(world(), torch::zeros({10}), o);
  if (world().rank() < world().size() - 1) {
    for (int i = 0; i < 50; ++i) centre.push(torch::ones({10}));
  }
  centre.finish();  // the server does nothing else
  EXPECT_TRUE(pulled(centre).equal(torch::full({10}, 50.0 * (world().size() - 1))));
  centre.finish();
}

TEST_P(ShardedTensors, AreAsManyAsOneLikes) {
  for (int i = 0; i < 40; ++i) {
    ShardedTensor one(world(), torch::zeros({5}), options());
    ShardedTensor other(world(), torch::zeros({2}), options());
    one.push(torch::ones({5}));
    other.push(torch::full({2}, 2.0));
    one.finish();
    other.finish();
    EXPECT_TRUE(pulled(one).equal(torch::full({5}, 1.0 * world().size())));
    EXPECT_TRUE(pulled(other).equal(torch::full({2}, 2.0 * world().size())));
    one.finish();
    other.finish();
  }
}

TEST_P(ShardedTensors, RefuseWhatDoesNotFitAndLiveOn) {
  ShardedTensorOptions o = options();
  o.refuse_non_finite = true;
  ShardedTensor centre(world(), torch::zeros({4}), o);
  EXPECT_THROW(centre.push(torch::zeros({5})), ContractError);
  EXPECT_THROW(centre.push(torch::zeros({4}, at::kDouble)), ContractError);
  EXPECT_THROW(centre.push(torch::zeros({4}), "multiply"), ContractError);
  EXPECT_THROW(centre.push(torch::full({4}, std::nan(""))), ContractError);
  EXPECT_THROW(centre.pull(torch::zeros({2, 2})), ContractError);
  centre.push(torch::ones({4})).wait();
  centre.finish();
  EXPECT_TRUE(pulled(centre).equal(torch::full({4}, 1.0 * world().size())));
  centre.finish();
}

// The meta device represents devices whose memory is not on the host.
TEST_P(ShardedTensors, RefuseWhatLiesElsewhere) {
  const at::Tensor elsewhere = torch::ones({5}, torch::kMeta);
  EXPECT_THROW(ShardedTensor(world(), elsewhere, options()), ContractError);
  ShardedTensor centre(world(), torch::zeros({5}), options());
  EXPECT_THROW((void)centre.push(elsewhere), ContractError);
  EXPECT_THROW((void)centre.pull(elsewhere), ContractError);
  centre.finish();
}

TEST_P(ShardedTensors, TellThePusherWhatARuleThrew) {
  Rule moody{.name = "moody", .apply = [](const Chunk& s) {
               if (*reinterpret_cast<const float*>(s.pushed) < 0) throw std::runtime_error("too negative");
               rules::add().apply(s);
             }};
  ShardedTensor centre(world(), torch::zeros({64}), options({moody}));
  try {
    centre.push(torch::full({64}, -1.0)).wait();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("too negative"), std::string::npos) << error.what();
  }
  centre.push(torch::ones({64})).wait();
  centre.finish();
  EXPECT_TRUE(pulled(centre).equal(torch::full({64}, 1.0 * world().size())));
  centre.finish();
}

/// Destruction is local: a rank that is done early still answers the others' requests, wherever its engine is driven.
TEST_P(ShardedTensors, MayGoWithRequestsInFlight) {
  progress(world());  // completes those of other tests
  const int64_t before = operations_in_flight(world());
  for (const int64_t numel : {10, 600000}) {
    ShardedTensor centre(world(), torch::zeros({numel}), options());
    for (int i = 0; i < 3; ++i) centre.push(torch::ones({numel}));
    centre.prefetch();
  }
  while (operations_in_flight(world()) > before) progress(world());
  barrier(world());
}

/// The library writes the initial values with its own rule of that name.
TEST_P(ShardedTensors, RefuseRulesThatBearOurNames) {
  for (const std::string name : {"copy", "zero", "add"}) {
    const Rule rule{.name = name, .apply = [](const Chunk&) {}};
    const std::string message = tw::testing::message_of<ContractError>([&] { ShardedTensor(world(), torch::zeros({4}), options({rule})); });
    EXPECT_NE(message.find("a rule of yours is called '" + name + "'"), std::string::npos) << message;
  }
  ShardedTensor centre(world(), torch::zeros({4}), options({rules::zero(), rules::add(), rules::copy()}));
  centre.finish();
}

TW_TEST_ON(ShardedTensor, NeedsTheSameOnAllRanks, {.least = 2}) {
  const bool odd = world().rank() == 1;
  const std::string message = tw::testing::message_of<ContractError>([&] { ShardedTensor(world(), odd ? at::Tensor() : torch::zeros({4})); });
  EXPECT_NE(message.find("failed on rank 1 of 'world/dup': the initial tensor is undefined"), std::string::npos) << message;
  EXPECT_THROW(ShardedTensor(world(), torch::zeros({odd ? 3 : 4})), ContractError);
  EXPECT_THROW(ShardedTensor(world(), torch::zeros({4}), {.rules = {rules::momentum({.lr = odd ? 0.1 : 0.2})}}), ContractError);
  EXPECT_THROW(ShardedTensor(world(), torch::zeros({4}), {.servers = {1, 0}}), ContractError);
  EXPECT_THROW(ShardedTensor(world(), torch::zeros({4}), {.rules = {rules::add(), rules::add()}}), ContractError);
}

}  // namespace sharded_tensor_test
}  // namespace tw::parameter_server
