// SPDX-License-Identifier: Apache-2.0
// Data x layer: two data ranks, each of two ranks with half of the layers. It is saved on 2 x 2 ranks, loaded on 1 x 3, and trained further. All of
// it equals one process with all samples, |ours - reference| <= 1e-12 |reference| in the 2-norm: float64, enough iterations to be exact, and Adam
// keeps relative differences (see equivalence_test.cpp of data_parallel).
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <filesystem>
#include <tw/comm/mesh.hpp>
#include <tw/data_parallel.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/state.hpp>

namespace layers_in_parallel_test {

using namespace tw::layer_parallel;
using tw::testing::world;

constexpr int64_t samples = 12;  // per step, over all data ranks
constexpr int64_t layers = 13;

struct DenseImpl : torch::nn::Module {
  explicit DenseImpl(int64_t width) : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(const torch::Tensor& u) { return torch::tanh(linear(u)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Dense);

std::vector<Block> blocks() {
  return {block([] { return torch::nn::Linear(4, 6); }, 1), block([] { return Dense(6); }, layers), block([] { return torch::nn::Linear(6, 3); }, 1)};
}

LayerParallelOptions options() {
  return {.coarsening = 2, .min_coarse = 1, .forward = {.iterations = layers}, .backward = {.iterations = layers}, .seed = 8};
}

/// The mean loss of part `part` of `parts` of a step's samples.
template <class Net>
at::Tensor loss_of(Net& net, int64_t step, int64_t part, int64_t parts) {
  torch::manual_seed(static_cast<uint64_t>(1000 + step));
  const at::Tensor inputs = torch::randn({samples, 4}, torch::kDouble);
  const at::Tensor targets = torch::randint(3, {samples}, torch::kLong);
  const int64_t count = samples / parts;
  return torch::cross_entropy_loss(net.forward(inputs.narrow(0, part * count, count)), targets.narrow(0, part * count, count));
}

/// A network with its layers in parallel, on data ranks.
class Composed {
 public:
  Composed(const tw::Communicator& data, const tw::Communicator& layer) : data_(data), net_(layer, blocks(), options()) {
    net_.to(torch::kDouble);
    std::vector<tw::NamedTensor> parameters;
    for (const auto& p : net_.named_parameters()) parameters.push_back({p.key(), p.value()});
    parallel_.emplace(data_, parameters, tw::DataParallelOptions{.reduction = tw::Reduction::mean});
    adam_.emplace(net_.parameters(), 1e-2);
  }

  void step(int64_t number) {
    adam_->zero_grad();
    loss_of(net_, number, data_.rank(), data_.size()).backward();
    adam_->step();
  }

  tw::OptimizerState optimizer() { return {*adam_, net_.optimized_tensors()}; }
  std::vector<tw::NamedShard> shards(const tw::OptimizerState& state) {
    std::vector<tw::NamedShard> all = net_.shards();
    for (tw::NamedShard& shard : state.shards()) all.push_back(std::move(shard));
    return all;
  }
  LayerParallel& net() { return net_; }

 private:
  const tw::Communicator& data_;
  LayerParallel net_;
  std::optional<tw::DataParallel> parallel_;
  std::optional<torch::optim::Adam> adam_;
};

struct Reference {
  Reference() { net.to(torch::kDouble); }
  void step(int64_t number) {
    adam.zero_grad();
    loss_of(net, number, 0, 1).backward();
    adam.step();
  }
  SerialNetwork net{blocks(), options()};
  torch::optim::Adam adam{net.parameters(), 1e-2};
};

void expect_equal(LayerParallel& net, const Reference& reference, const std::string& what) {
  for (const tw::NamedShard& shard : net.shards()) {
    const size_t dot = shard.name.find('.');
    const auto index = static_cast<size_t>(std::stoi(shard.name.substr(0, dot)));
    const bool stacked = blocks()[index].is_ode();
    for (int64_t i = 0; i < (stacked ? shard.tensor.size(0) : 1); ++i) {
      const auto layer = static_cast<size_t>(stacked ? shard.offsets[0] + i : 0);
      const at::Tensor expected = reference.net.layers(index)[layer].module->named_parameters()[shard.name.substr(dot + 1)];
      const at::Tensor ours = stacked ? shard.tensor[i] : shard.tensor;
      EXPECT_LE((ours - expected).norm().item<double>(), 1e-12 * expected.norm().item<double>()) << what << ' ' << shard.name << ' ' << layer;
    }
  }
}

TEST(Layers, TimesDataAreOneProcess) {
  const auto directory = std::filesystem::path(std::getenv("TEST_TMPDIR")) / "layers";
  constexpr int64_t before = 4;
  constexpr int64_t after = 4;
  Reference reference;
  for (int64_t step = 0; step < before; ++step) reference.step(step);
  {
    const tw::Mesh mesh(world(), {{"data", 2}, {"layer", 2}});
    Composed composed(mesh["data"], mesh["layer"]);
    for (int64_t step = 0; step < before; ++step) composed.step(step);
    expect_equal(composed.net(), reference, "2 x 2");
    tw::CheckpointStore store(world(), directory);
    store.save(before, composed.shards(composed.optimizer()), "");
    store.wait();
  }
  for (int64_t step = before; step < before + after; ++step) reference.step(step);
  const tw::Communicator three = world().split(world().rank() < 3 ? 0 : 1, world().rank());
  if (world().rank() == 3) return;
  const tw::Communicator alone = three.split(three.rank(), 0);
  Composed composed(alone, three);
  const tw::CheckpointStore store(three, directory);
  tw::OptimizerState state = composed.optimizer();
  state.prepare(store.names(before));
  const std::vector<tw::NamedShard> shards = composed.shards(state);
  store.load(before, shards);
  state.apply(shards);
  for (int64_t step = before; step < before + after; ++step) composed.step(step);
  expect_equal(composed.net(), reference, "1 x 3");
}

// Their parts have equal names and shapes, so replicas would mix different layers.
TEST(LayersInParallel, AreNotReplicatedOverTheirOwnRanks) {
  LayerParallel net(world(), {block([] { return Dense(6); }, 16)}, options());
  const std::vector<std::function<void()>> wraps{[&] { tw::DataParallel(world(), net, {.reduction = tw::Reduction::mean}); },
                                                 [&] { tw::FullySharded(world(), net, {.reduction = tw::Reduction::mean}); },
                                                 [&] { tw::LocalSgd(world(), net, {.period = 1}); }, [&] { tw::DiLoCo(world(), net, {}); }};
  for (const auto& wrap : wraps) {
    EXPECT_NE(tw::testing::message_of(wrap).find("has a different part of the model than rank 0"), std::string::npos);
  }
}

}  // namespace layers_in_parallel_test
