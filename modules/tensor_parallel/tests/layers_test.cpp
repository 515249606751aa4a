// SPDX-License-Identifier: Apache-2.0
// Models on P ranks, compared with LibTorch's layers in one process, which every rank also has: outputs, all gradients, and parameters after 20
// steps, in float64, each tensor to 1e-12 in the 2-norm. A rank's slice of a parameter is compared with that slice of the whole. The difference is
// relative to the norm of the whole, because contributions of samples to a single number, such as a bias's gradient, may cancel.
//
// Tolerance: the two differ only in the order of summation, over at most 64 features and 24 samples. The relative difference of a step is a few times
// 1.1e-16 times the square root of the number of terms, about 1e-15. Adam divides by sqrt(v), which preserves relative differences. 20 steps of a
// smooth network make at most 1e-13.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <functional>
#include <tw/comm/collectives.hpp>
#include <tw/tensor_parallel.hpp>

namespace layers_test {

using namespace tw::tensor_parallel;
using tw::testing::place;
using tw::testing::world;

constexpr double tolerance = 1e-12;

/// A model, parallel or made of LibTorch's layers only.
struct Net : torch::nn::Module {
  virtual at::Tensor run(const at::Tensor& input) = 0;
};
using NetPointer = std::shared_ptr<Net>;

/// Two layers with tanh in between; names are the same in both models.
template <class First, class Second>
struct MlpNet : Net {
  MlpNet(First first_layer, Second second_layer)
      : first(register_module("first", std::move(first_layer))), second(register_module("second", std::move(second_layer))) {}
  at::Tensor run(const at::Tensor& input) override { return second(first(input).tanh()); }
  First first;
  Second second;
};

/// Tokens to classes: an embedding, and a layer whose output all ranks need.
template <class Table, class Layer>
struct WordNet : Net {
  WordNet(Table word_table, Layer class_layer)
      : table(register_module("table", std::move(word_table))), layer(register_module("layer", std::move(class_layer))) {}
  at::Tensor run(const at::Tensor& input) override { return layer(table(input).tanh()); }
  Table table;
  Layer layer;
};

template <template <class, class> class Model, class First, class Second>
NetPointer make(First first, Second second) {
  return std::make_shared<Model<First, Second>>(std::move(first), std::move(second));
}

torch::nn::Linear linear(int64_t in, int64_t out, bool bias = true) { return torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(bias)); }

/// @param norm of the whole tensor of which `expected` is a slice
void expect_near(const at::Tensor& found, const at::Tensor& expected, double norm, const std::string& what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  EXPECT_LE((found - expected).norm().item<double>(), tolerance * norm) << what;
}

void expect_near(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  expect_near(found, expected, expected.norm().item<double>(), what);
}

/// Compares this rank's slice of every parameter, or of its gradient.
void expect_slices(const Net& ours, const Net& reference, bool gradients) {
  std::vector<tw::NamedShard> shards;
  for (const auto& parameter : ours.named_parameters()) shards.push_back(tw::whole(parameter.key(), parameter.value(), tw::ShardKind::parameter));
  const auto expected = reference.named_parameters();
  EXPECT_EQ(shards.size(), expected.size());
  for (const tw::NamedShard& shard : sliced(ours, shards)) {
    at::Tensor whole = gradients ? expected[shard.name].grad() : expected[shard.name].detach();
    EXPECT_EQ(whole.sizes(), at::IntArrayRef(shard.global_shape)) << shard.name;
    const double norm = whole.norm().item<double>();
    for (int64_t d = 0; d < whole.dim(); ++d) whole = whole.narrow(d, shard.offsets[static_cast<size_t>(d)], shard.tensor.size(d));
    expect_near(gradients ? shard.tensor.grad() : shard.tensor.detach(), whole, norm, shard.name + (gradients ? "'s gradient" : ""));
  }
}

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(const Net&)>;
const std::vector<MakeOptimizer> optimizers{
    [](const Net& net) { return std::make_unique<torch::optim::SGD>(net.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9)); },
    [](const Net& net) { return std::make_unique<torch::optim::Adam>(net.parameters(), 1e-3); }};

/// `make_ours` and `make_reference` draw from the same generator state. @param input_of the input of a step; if it requires a gradient, that is
/// compared too.
void expect_equivalence(const std::function<NetPointer()>& make_ours, const std::function<NetPointer()>& make_reference,
                        const std::function<at::Tensor(int64_t step)>& input_of) {
  for (const MakeOptimizer& make_optimizer : optimizers) {
    torch::manual_seed(5);
    const NetPointer reference = make_reference();
    const at::Tensor after_reference = torch::rand({1});
    torch::manual_seed(5);
    const NetPointer ours = make_ours();
    EXPECT_TRUE(torch::rand({1}).equal(after_reference));  // both models drew the same number of random numbers
    reference->to(torch::kDouble);
    ours->to(torch::kDouble);
    tw::testing::place_module(reference);
    tw::testing::place_module(ours);
    const auto our_optimizer = make_optimizer(*ours);
    const auto reference_optimizer = make_optimizer(*reference);
    for (int64_t step = 0; step < 20; ++step) {
      torch::manual_seed(static_cast<uint64_t>(1000 + step));
      const at::Tensor input = place(input_of(step));
      const at::Tensor reference_input = input.detach().clone().set_requires_grad(input.requires_grad());
      our_optimizer->zero_grad();
      reference_optimizer->zero_grad();
      const at::Tensor output = ours->run(input);
      const at::Tensor expected = reference->run(reference_input);
      expect_near(output.detach(), expected.detach(), "output");
      const at::Tensor target = place(torch::randn(expected.sizes(), torch::kDouble));
      torch::mse_loss(output, target).backward();
      torch::mse_loss(expected, target).backward();
      if (input.requires_grad()) expect_near(input.grad(), reference_input.grad(), "the input's gradient");
      expect_slices(*ours, *reference, true);
      our_optimizer->step();
      reference_optimizer->step();
    }
    expect_slices(*ours, *reference, false);
  }
}

at::Tensor samples(int64_t features) { return torch::randn({2, 12, features}, torch::kDouble).requires_grad_(); }

TEST(Mlp, ColumnThenRowIsOneProcess) {
  for (const int64_t hidden : {12, 7, 2}) {  // divisible by every P up to 4; by none; some ranks have no features
    expect_equivalence([&] { return make<MlpNet>(ColumnParallelLinear(world(), 5, hidden), RowParallelLinear(world(), hidden, 3)); },
                       [&] { return make<MlpNet>(linear(5, hidden), linear(hidden, 3)); }, [](int64_t) { return samples(5); });
  }
}

TEST(Mlp, NeedsNoBias) {
  expect_equivalence(
      [] {
        return make<MlpNet>(ColumnParallelLinear(world(), 5, 12, ColumnParallelLinearOptions{.bias = false}),
                            RowParallelLinear(world(), 12, 3, RowParallelLinearOptions{.bias = false}));
      },
      [] { return make<MlpNet>(linear(5, 12, false), linear(12, 3, false)); }, [](int64_t) { return samples(5); });
}

// Each layer alone, with whole inputs and outputs: both of its collectives, in both passes.
TEST(Mlp, GatheredAndScatteredIsOneProcess) {
  for (const int64_t hidden : {12, 7}) {
    expect_equivalence(
        [&] {
          return make<MlpNet>(ColumnParallelLinear(world(), 5, hidden, ColumnParallelLinearOptions{.gather_output = true}),
                              RowParallelLinear(world(), hidden, 3, RowParallelLinearOptions{.input_is_parallel = false}));
        },
        [&] { return make<MlpNet>(linear(5, hidden), linear(hidden, 3)); }, [](int64_t) { return samples(5); });
    expect_equivalence(
        [&] {
          return make<MlpNet>(RowParallelLinear(world(), 5, hidden, RowParallelLinearOptions{.input_is_parallel = false}),
                              ColumnParallelLinear(world(), hidden, 3, ColumnParallelLinearOptions{.gather_output = true}));
        },
        [&] { return make<MlpNet>(linear(5, hidden), linear(hidden, 3)); }, [](int64_t) { return samples(5); });
  }
}

TEST(Words, EmbeddingThenColumnIsOneProcess) {
  for (const int64_t vocabulary : {24, 17, 3}) {
    for (const bool padded : {false, true}) {
      const auto padding = padded ? std::optional<int64_t>(vocabulary / 2) : std::nullopt;
      expect_equivalence(
          [&] {
            return make<WordNet>(VocabParallelEmbedding(world(), vocabulary, 6, VocabParallelEmbeddingOptions{.padding_idx = padding}),
                                 ColumnParallelLinear(world(), 6, 5, ColumnParallelLinearOptions{.gather_output = true}));
          },
          [&] { return make<WordNet>(torch::nn::Embedding(torch::nn::EmbeddingOptions(vocabulary, 6).padding_idx(padding)), linear(6, 5)); },
          [&](int64_t step) { return torch::randint(vocabulary, {2, 12}, step % 2 == 0 ? torch::kLong : torch::kInt); });
    }
  }
}

TEST(Words, TakesAnyShapeOfIndices) {
  torch::manual_seed(1);
  VocabParallelEmbedding table(world(), 5, 2);
  EXPECT_EQ(table(torch::zeros({0}, torch::kLong)).sizes(), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(table(torch::tensor(4)).sizes(), (std::vector<int64_t>{2}));
  EXPECT_EQ(table(torch::arange(5).view({5, 1}).expand({5, 3})).sizes(), (std::vector<int64_t>{5, 3, 2}));
}

// In float32, rounding errors are 1e-7 instead of 1e-16.
TEST(Mlp, WorksInFloat32) {
  torch::manual_seed(2);
  const NetPointer ours = make<MlpNet>(ColumnParallelLinear(world(), 5, 12), RowParallelLinear(world(), 12, 3));
  torch::manual_seed(2);
  const NetPointer reference = make<MlpNet>(linear(5, 12), linear(12, 3));
  const at::Tensor input = torch::randn({24, 5});
  const at::Tensor output = ours->run(input);
  EXPECT_EQ(output.scalar_type(), torch::kFloat);
  EXPECT_LE((output - reference->run(input)).norm().item<double>(), 1e-5 * output.norm().item<double>());
}

TEST(Layers, ReadLikeLibTorchs) {
  torch::manual_seed(3);
  const RowParallelLinear row(world(), 8, 3);
  const auto shards = row->shards("head");
  ASSERT_EQ(shards.size(), 2U);
  EXPECT_EQ(shards[0].name, "head.weight");
  EXPECT_EQ(shards[0].global_shape, (std::vector<int64_t>{3, 8}));
  EXPECT_EQ(shards[0].offsets, (std::vector<int64_t>{0, 8 * world().rank() / world().size()}));
  EXPECT_EQ(shards[0].on_reshard, tw::OnReshard::shard);
  EXPECT_EQ(shards[1].name, "head.bias");
  EXPECT_EQ(shards[1].on_reshard, tw::OnReshard::replicate);
  EXPECT_EQ(row->shards()[0].name, "weight");
}

/// Split tensors use different random numbers on each rank, replicated ones the same numbers, before, between and after. Two steps, on each rank.
TEST(Layers, DropOtherUnitsOfWhatIsSplitAndTheSameOfWhatIsReplicated) {
  const at::Tensor ones = place(torch::ones({256}));
  SplitDropout split(world(), 0.5);
  torch::nn::Dropout replicated(0.5);
  torch::manual_seed(7);
  for (int step = 0; step < 2; ++step) {
    const at::Tensor before = replicated->forward(ones);
    const at::Tensor own = split(ones);
    const at::Tensor after = replicated->forward(ones);
    EXPECT_FALSE(before.equal(after));
    EXPECT_FALSE(own.equal(before) || own.equal(after));
    EXPECT_NEAR(own.mean().item<double>(), 1, 0.4) << "128 of 256 elements stay, give or take 8, with twice their value";
    const at::Tensor here = torch::stack({before, own, after}).cpu();
    for (int rank = 0; rank < world().size(); ++rank) {
      const at::Tensor there = here.clone();
      tw::broadcast(world(), there, tw::Rank(rank));
      EXPECT_TRUE(there[0].equal(here[0]) && there[2].equal(here[2])) << "rank " << rank;
      EXPECT_EQ(there[1].equal(here[1]), rank == world().rank()) << "rank " << rank;
    }
  }
  split->eval();
  EXPECT_TRUE(split(ones).equal(ones));
  EXPECT_THROW(SplitDropout(world(), 1.5), tw::ContractError);
}

void expect_refusal(const std::function<void()>& call, const std::vector<std::string>& parts) {
  try {
    call();
    ADD_FAILURE() << "no exception";
  } catch (const tw::ContractError& error) {
    for (const std::string& part : parts) EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

// On every rank alike, otherwise ranks would wait for each other.
TEST(Layers, RefuseWhatDoesNotFit) {
  torch::manual_seed(4);
  expect_refusal([] { ColumnParallelLinear(world(), 0, 4); }, {"ColumnParallelLinear(0, 4) needs sizes of at least 1"});
  expect_refusal([] { RowParallelLinear(world(), 4, -1); }, {"RowParallelLinear(4, -1) needs sizes of at least 1"});
  expect_refusal([] { VocabParallelEmbedding(world(), 4, 2, VocabParallelEmbeddingOptions{.padding_idx = 4}); },
                 {"VocabParallelEmbedding(4, 2, padding_idx 4) needs a padding_idx within the vocabulary"});
  ColumnParallelLinear column(world(), 4, 4);
  expect_refusal([&] { column(torch::ones({2, 5})); }, {"ColumnParallelLinear expects an input of shape [..., 4]", "got [2, 5]"});
  RowParallelLinear row(world(), 2 * world().size(), 4);
  expect_refusal([&] { row(torch::ones({2, 3})); }, {"RowParallelLinear expects an input of shape [..., 2]", "got [2, 3]"});
  VocabParallelEmbedding table(world(), 10, 2);
  expect_refusal([&] { table(torch::tensor({3, 10})); }, {"index 10 is outside of the vocabulary of 10"});
  expect_refusal([&] { table(torch::tensor({3, -1})); }, {"index -1 is outside of the vocabulary of 10"});
  expect_refusal([&] { table(torch::ones({2})); }, {"indices must be int64 or int32, got float32"});
  world().barrier();
}

TW_TEST_ON(Layers, RefuseRanksThatDiffer, {.least = 2}) {
  const int last = world().size() - 1;
  torch::manual_seed(4);
  expect_refusal([&] { RowParallelLinear(world(), 4, world().rank() == last ? 5 : 4); },
                 {tw::concat("rank ", last, " has 'RowParallelLinear(4, 5)' where rank 0 has 'RowParallelLinear(4, 4)'")});
  torch::manual_seed(world().rank() == last ? 1 : 2);
  expect_refusal([] { ColumnParallelLinear(world(), 4, 4); },
                 {"the initial values of ColumnParallelLinear(4, 4)", "same seed", tw::concat("rank ", last, " has 'weight with hash")});
  world().barrier();
}

/// A user's own model, which names no module.
class Bare : public tw::TrainableModel {
 public:
  explicit Bare(NetPointer of) : net_(std::move(of)) {}
  tw::ModelTensors tensors() const override { return tw::model_tensors(*net_); }
  at::Tensor forward(const at::Tensor& inputs) override { return net_->run(inputs); }

 private:
  NetPointer net_;
};

// Ranks that wait along `tensor` are released by these communicators.
TEST(SplitModel, KnowsTheSplitLayersOfAModelWithoutAModule) {
  torch::manual_seed(4);
  const NetPointer net = make<MlpNet>(ColumnParallelLinear(world(), 4, 6), RowParallelLinear(world(), 6, 2));
  const auto model = split_model(net, std::make_shared<Bare>(net));
  std::vector<std::string> names;
  model->for_each_layer([&](const std::string& name, const torch::nn::Module& /*layer*/) { names.push_back(name); });
  EXPECT_EQ(names, (std::vector<std::string>{"", "first", "second"}));
  EXPECT_EQ(model->communicators().size(), 2U);
  for (const tw::Communicator* each : model->communicators()) EXPECT_EQ(each->state(), world().state());
  const auto inner = tw::whole_model(net, [net](const at::Tensor& x) { return net->run(x); });
  EXPECT_EQ(split_model(net, inner)->communicators(), inner->communicators()) << "which knows them all";
}

}  // namespace layers_test
