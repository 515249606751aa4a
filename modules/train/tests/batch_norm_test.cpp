// SPDX-License-Identifier: Apache-2.0
// Batch norms if the last update of an epoch leaves ranks without samples. SyncBatchNorm on p ranks is BatchNorm on one process: the two differ in
// the order of summation over at most 6 samples, about 1e-15 relative per step, and 6 smooth steps keep it below 1e-12; checked to 1e-10, in float64.
#include "message_of.hpp"
#include "support.hpp"

#include <tw/data_parallel/sync_batch_norm.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>

namespace batch_norm_test {

using namespace tw::testing;
using tw::Reduction;
using tw::train::Sharded;

/// Parameters and buffers after a run, and the loss on the test set.
struct Trained {
  std::vector<at::Tensor> tensors;
  double loss = 0;
};

/// Three epochs of 8 samples: one update of 6 and one of 2.
Trained train(const tw::Communicator& comm, const tw::train::Model& model, const Way& way, int64_t accumulation, const std::string& name) {
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05).momentum(0.9));
  torch::manual_seed(6);
  const at::Tensor inputs = torch::randn({8, 4}, torch::kDouble) * 2 + 1;
  const tw::TensorDataset data(inputs, inputs.square().sum(1, true));
  tw::train::Options options = quick(name);
  options.epochs = 3;
  options.global_batch = 6;
  options.accumulation = accumulation;
  options.shard = way.shard;
  options.resume = tw::train::Resume::fresh;
  tw::train::Trainer trainer(tw::Mesh(comm, way.axes), model, sgd, tw::train::regression(), data, data, options);
  Trained trained;
  trained.loss = trainer.run().test.front().second;
  for (const tw::NamedTensor& each : model.parameters) trained.tensors.push_back(each.tensor.detach().clone());
  for (const tw::NamedTensor& each : model.buffers) trained.tensors.push_back(each.tensor.detach().clone());
  return trained;
}

void expect_equal(const Trained& ours, const Trained& expected, const std::string& what) {
  EXPECT_NEAR(ours.loss, expected.loss, 1e-10 * expected.loss) << what;
  ASSERT_EQ(ours.tensors.size(), expected.tensors.size()) << what;
  for (size_t i = 0; i < ours.tensors.size(); ++i) {
    const at::Tensor reference = expected.tensors[i].to(torch::kDouble);
    EXPECT_LE((ours.tensors[i].to(torch::kDouble) - reference).norm().item<double>(), 1e-10 * reference.norm().item<double>()) << what << ", " << i;
  }
}

tw::train::Model one_layer(bool synchronised, Reduction reduction = Reduction::sum) {
  torch::manual_seed(3);
  torch::nn::Sequential net(torch::nn::Linear(torch::nn::LinearOptions(4, 8).bias(false)), torch::nn::BatchNorm1d(8), torch::nn::Tanh(),
                            torch::nn::Linear(8, 1));
  net->to(torch::kDouble);
  if (synchronised) tw::synchronize_batch_norms(*net, world(), reduction);
  return tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
}

TEST(BatchNormOfATrainer, IsThatOfOneProcessWhereRanksHaveNoSamples) {
  const tw::Communicator alone = world().split(static_cast<int>(world().rank()), 0);
  const std::string mine = tw::concat("norm_alone_", static_cast<int>(world().rank()));
  for (const int64_t accumulation : {1, 2}) {
    const Trained expected = train(alone, one_layer(false), {}, accumulation, mine);
    for (const Way& way : {Way{}, Way{.name = "optimizer", .axes = along_shard, .shard = {.what = Sharded::optimizer}},
                           Way{.name = "parameters", .axes = along_shard, .shard = {.unit_bytes = 1, .prefetch_units = 1}}}) {
      const Trained ours = train(world(), one_layer(true), way, accumulation, "norm");
      expect_equal(ours, expected, tw::concat(way.name, ", accumulation ", accumulation));
    }
  }
}

// The trainer weights losses and sums, so only one reduction is valid.
TEST(BatchNormOfATrainer, HasOneReduction) {
  const std::string error =
      message_of<tw::ContractError>([] { train(world(), one_layer(true, Reduction::sample_weighted), {}, 1, "norm_of_samples"); });
  EXPECT_NE(error.find("SyncBatchNorm 1 is made for"), std::string::npos) << error;
}

// Without knowing of the layer, ranks without samples would not pass, and the others would wait for ever. Of a model in parts one rank may have it
// alone.
TEST(BatchNormOfATrainer, IsFoundInAModelOverAModel) {
  struct Over : tw::ModelDecorator {
    using ModelDecorator::ModelDecorator;
    std::vector<std::string> axes() const override { return {"layer"}; }
    void for_each_layer(const tw::OnLayer& on_layer) const override {
      if (world().rank() == 0) ModelDecorator::for_each_layer(on_layer);
    }
  };
  const auto net = std::make_shared<tw::SyncBatchNormImpl>(world(), torch::nn::BatchNormOptions(3), Reduction::sum);
  const auto over = std::make_shared<Over>(tw::whole_model(net, [net](const at::Tensor& x) { return net->forward(x); }));
  const auto model = tw::train::model_of(over);
  EXPECT_EQ(model.exchanges_in_passes, world().rank() == 0);
  const std::string error = message_of([&] { train(world(), model, {.axes = {{"layer"}}}, 1, "norm_of_layers"); });
  EXPECT_NE(error.find("is in stages or in layers in parallel"), std::string::npos) << error;
}

TEST(BatchNormOfATrainer, IsFoundInBlocksOfLayers) {
  using namespace tw::layer_parallel;
  const auto residual = [] {
    return torch::nn::Sequential(torch::nn::Linear(8, 8), tw::SyncBatchNorm(world(), torch::nn::BatchNormOptions(8), Reduction::sum));
  };
  const std::vector<Block> blocks{block([] { return torch::nn::Linear(4, 8); }, 1), block(residual, 4),
                                  block([] { return torch::nn::Linear(8, 1); }, 1)};
  const auto net = std::make_shared<LayerParallel>(world(), blocks, LayerParallelOptions{});
  net->to(torch::kDouble);
  const std::string error = message_of([&] { train(world(), tw::train::model_of(net), {.axes = {{"layer"}}}, 1, "norm_in_layers"); });
  EXPECT_NE(error.find("is in stages or in layers in parallel"), std::string::npos) << error;
}

// A rank without samples makes a pass over samples that do not count; its running statistics include only its own.
TEST(BatchNormOfATrainer, CountsNoForeignSamples) {
  const auto make = [] {
    torch::manual_seed(3);
    torch::nn::Sequential net(torch::nn::BatchNorm2d(1), torch::nn::Flatten(), torch::nn::Linear(4, 1));
    net->to(torch::kDouble);
    return tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x.view({-1, 1, 2, 2})); });
  };
  const Trained expected = train(world(), make(), {}, 1, "norm_data");
  const Trained ours = train(world(), make(), {.axes = along_shard, .shard = {.unit_bytes = 1}}, 1, "norm_sharded");
  ASSERT_EQ(ours.tensors.size(), expected.tensors.size());
  for (size_t i = 4; i < ours.tensors.size(); ++i) {
    EXPECT_TRUE(ours.tensors[i].to(torch::kDouble).allclose(expected.tensors[i].to(torch::kDouble), 1e-10)) << i;
  }
}

}  // namespace batch_norm_test
