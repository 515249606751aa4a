// SPDX-License-Identifier: Apache-2.0
// A model in parts along an axis of the mesh: the trainer's numbers equal those of one process, on every mesh and after a change of mesh.
#include "regression_run.hpp"

#include <nlohmann/json.hpp>

#include <fstream>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/layer_parallel/iteration_control.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/layer_parallel/sequence_model.hpp>
#include <tw/layer_training/splinet.hpp>
#include <tw/tensor/safetensors.hpp>

namespace parts_test {

using tw::Mesh;
using tw::layer_training::SpliNet;
using tw::layer_training::SpliNetOptions;
using tw::testing::squares;
using tw::testing::three_epochs;
using tw::testing::Witness;
using tw::testing::world;
using tw::train::Model;
using tw::train::model_of;
using tw::train::Options;
using tw::train::Resume;
using tw::train::Trainer;
using namespace tw::layer_parallel;

struct ResidualImpl : torch::nn::Module {
  ResidualImpl() : linear(register_module("linear", torch::nn::Linear(8, 8))) {}
  torch::Tensor forward(const torch::Tensor& u) { return torch::tanh(linear(u)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Residual);

std::vector<Block> blocks() {
  return {block([] { return torch::nn::Linear(4, 8); }, 1), block([] { return Residual(); }, 12), block([] { return torch::nn::Linear(8, 1); }, 1)};
}

// Enough iterations to be exact.
const LayerParallelOptions exact{.coarsening = 2, .min_coarse = 1, .forward = {.iterations = 6}, .backward = {.iterations = 6}};

/// One run, or a part of it: three epochs over the mesh data x layer, with `layers` ranks along the latter. @param trained receives the net
tw::train::Summary run(int layers, const Options& options, int64_t stop_at = tw::testing::never, std::shared_ptr<LayerParallel>* trained = nullptr) {
  const Mesh mesh(world(), {{"data"}, {"layer", layers}});
  auto net = std::make_shared<LayerParallel>(mesh["layer"], blocks(), exact);
  net->to(torch::kDouble);
  const Model model = model_of(net);
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const auto data = squares(31);
  Trainer trainer(mesh, model, sgd, tw::train::regression(), data, data, options, &data);
  Witness witness(stop_at);
  trainer.add(witness);
  if (trained != nullptr) *trained = net;
  return trainer.run();
}

/// The same in one process, on each rank.
tw::train::Summary run_alone() {
  const tw::Communicator alone = world().split(world().rank(), 0);
  auto net = std::make_shared<SerialNetwork>(blocks(), exact);
  net->to(torch::kDouble);
  const Model model = model_of(std::shared_ptr<torch::nn::Module>(net), [net](const torch::Tensor& x) { return net->forward(x); });
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const auto data = squares(31);
  Trainer trainer(alone, model, sgd, tw::train::regression(), data, data, three_epochs("alone"));
  return trainer.run();
}

std::vector<int> lengths() {
  std::vector<int> result;
  for (const int layers : {1, 2, 3, 4}) {
    if (world().size() % layers == 0) result.push_back(layers);
  }
  return result;
}

// For 18 updates in float64 with sums in a different order.
constexpr double tolerance = 1e-10;

TEST(Parts, TrainLikeOneProcess) {
  const auto expected = run_alone();
  for (const int layers : lengths()) {
    const auto summary = run(layers, three_epochs("parts"));
    EXPECT_EQ(summary.steps, expected.steps);
    EXPECT_EQ(summary.parameters, expected.parameters);
    EXPECT_EQ(summary.ranks, world().size());
    for (size_t i = 0; i < expected.test.size(); ++i) {
      EXPECT_NEAR(summary.test[i].second, expected.test[i].second, tolerance * expected.test[i].second) << layers << ": " << expected.test[i].first;
    }
  }
}

/// Sequences of 4 numbers, over time and data.
TEST(Parts, SequencesTrainLikeOneProcess) {
  const RecurrentOptions recurrent{.hidden_size = 6, .coarsening = 2, .min_coarse = 1, .forward = {.iterations = 4}, .backward = {.iterations = 4}};
  const auto data = squares(31);
  const auto trained = [&](const Mesh& mesh, const std::string& name, int64_t stop_at, Resume resume) {
    const auto net = std::make_shared<SequenceModel>(mesh["layer"], recurrent, std::vector<int64_t>{1});
    net->to(torch::kDouble);
    const auto control = std::make_shared<IterationControl>(net, net, std::vector<IterationStage>{}, DetectorOptions{.every = 5});
    const Model model = model_of(control);
    torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05).momentum(0.9));
    Options options = three_epochs(name);
    options.checkpoint.every_epochs = 1;
    options.resume = resume;
    Trainer trainer(mesh, model, sgd, tw::train::regression(), data, data, options, &data);
    Witness witness(stop_at);
    trainer.add(witness);
    return trainer.run();
  };
  const tw::Communicator alone = world().split(world().rank(), 0);
  const auto expected =
      trained(Mesh(alone, {{"data"}, {"layer", 1}}), tw::concat("sequences_alone_", world().rank()), tw::testing::never, Resume::fresh);
  for (const int layers : lengths()) {
    const Mesh mesh(world(), {{"data"}, {"layer", layers}});
    EXPECT_FALSE(trained(mesh, "sequences", 8, Resume::fresh).finished);
    const auto summary = trained(mesh, "sequences", tw::testing::never, Resume::resume);
    EXPECT_EQ(summary.parameters, expected.parameters) << "each counted once";
    EXPECT_NEAR(summary.test[0].second, expected.test[0].second, tolerance * expected.test[0].second) << layers;
  }
}

/// A model on top of a model in parts; every rank of the axis has its control points.
TEST(Parts, SplinesInDepthTrainLikeOneProcess) {
  const auto run_splines = [](const Mesh& mesh, Options options) {
    const auto net = std::make_shared<LayerParallel>(mesh["layer"], blocks(), exact);
    net->to(torch::kDouble);
    const Model model = model_of(std::make_shared<SpliNet>(net, SpliNetOptions{.control_points = 5, .degree = 3}));
    torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05).momentum(0.9));
    const auto data = squares(31);
    options.checkpoint.every_epochs = 1;
    options.resume = Resume::fresh;
    return Trainer(mesh, model, sgd, tw::train::regression(), data, data, options, &data).run();
  };
  const auto expected =
      run_splines({world().split(world().rank(), 0), {{"data"}, {"layer", 1}}}, three_epochs(tw::concat("splines_alone_", world().rank())));
  EXPECT_EQ(expected.parameters, 5 * (8 * 8 + 8) + 4 * 8 + 8 + 8 + 1);
  for (const int layers : lengths()) {
    const Options options = three_epochs("splines");
    const auto summary = run_splines({world(), {{"data"}, {"layer", layers}}}, options);
    EXPECT_EQ(summary.parameters, expected.parameters);
    for (size_t i = 0; i < expected.test.size(); ++i) {
      EXPECT_NEAR(summary.test[i].second, expected.test[i].second, tolerance * expected.test[i].second) << layers << ": " << expected.test[i].first;
    }
    if (world().rank() != 0) continue;
    EXPECT_EQ(tw::SafetensorsFile(options.folder() / "best.safetensors").names().size(), 2U * 14) << "all layers, one by one";
  }
}

struct DroppingImpl : torch::nn::Module {
  DroppingImpl() : linear(register_module("linear", torch::nn::Linear(8, 8))) {}
  torch::Tensor forward(const torch::Tensor& u) { return torch::dropout(torch::tanh(linear(u)), 0.5, is_training()); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Dropping);

/// Compares the outputs of ranks with the same samples.
class OutputWitness : public tw::train::Hook {
 public:
  explicit OutputWitness(const Mesh& mesh) : data_(mesh.coordinate("data")) {}
  void on_forward(tw::train::State& state) override {
    ++passes;
    for (int rank = 0; rank < world().size(); ++rank) {
      torch::Tensor theirs = torch::cat({state.outputs.detach().flatten(), torch::full({1}, static_cast<double>(data_), torch::kDouble)});
      const torch::Tensor mine = theirs.clone();
      tw::broadcast(world(), theirs, tw::Rank(rank));
      const int64_t last = mine.numel() - 1;
      const bool is_one_model = theirs[last].equal(mine[last]);
      EXPECT_EQ(theirs.narrow(0, 0, last).equal(mine.narrow(0, 0, last)), is_one_model) << "pass " << passes << ", rank " << rank;
    }
  }
  int passes = 0;

 private:
  int64_t data_;
};

/// The ranks of a model draw the same numbers as one process; models along the axis `data` draw different ones.
TEST(Parts, ModelsAlongDataDropOtherUnits) {
  for (const int layers : lengths()) {
    const Mesh mesh(world(), {{"data"}, {"layer", layers}});
    const std::vector<Block> random{block([] { return torch::nn::Linear(4, 8); }, 1), block([] { return Dropping(); }, 6, {.random = true}),
                                    block([] { return torch::nn::Linear(8, 1); }, 1)};
    auto net = std::make_shared<LayerParallel>(mesh["layer"], random, exact);
    net->to(torch::kDouble);
    const Model model = model_of(net);
    torch::optim::SGD sgd(model.tensors(), 0.05);
    const tw::TensorDataset data(torch::ones({24, 4}, torch::kDouble), torch::ones({24, 1}, torch::kDouble));
    Options options = three_epochs("random");
    options.global_batch = 12;  // the same number of samples on each rank, for up to four
    options.accumulation = 1;
    Trainer trainer(mesh, model, sgd, tw::train::regression(), data, data, options);
    OutputWitness witness(mesh);
    trainer.add(witness);
    trainer.run();
    EXPECT_EQ(witness.passes, 6);
  }
}

TEST(Parts, GoOnOverAnotherMesh) {
  const auto expected = run_alone();
  for (const int before : lengths()) {
    for (const int after : lengths()) {
      Options options = three_epochs("remeshed");
      options.checkpoint.every_epochs = 1;
      options.resume = Resume::fresh;
      EXPECT_FALSE(run(before, options, 8).finished);
      options.resume = Resume::resume;
      const auto summary = run(after, options);
      EXPECT_TRUE(summary.finished);
      EXPECT_NEAR(summary.test[0].second, expected.test[0].second, tolerance * expected.test[0].second) << before << " and then " << after;
    }
  }
}

TEST(Parts, TheBestModelIsWhole) {
  Options options = three_epochs("best_of_parts");
  options.checkpoint.every_epochs = 1;
  options.resume = Resume::fresh;
  options.epochs = 1;
  std::shared_ptr<LayerParallel> net;
  const auto summary = run(world().size(), options, tw::testing::never, &net);
  ASSERT_EQ(summary.best_epoch, 1);
  const auto serial = net->serial_on_root();
  if (!serial) return;
  const tw::SafetensorsFile saved(options.folder() / "best.safetensors");
  EXPECT_EQ(saved.names().size(), 28U) << "twelve layers and two plain ones, each of weight and bias";
  const auto name_of = [&](const std::string& name) { return saved.contains(name) ? name : saved.metadata().at(name); };
  for (const auto& p : serial->named_parameters()) EXPECT_TRUE(saved.tensor(name_of(p.key())).equal(p.value())) << p.key();
}

// Ranks along `shard` have parts of the stacks. The file has each layer by its own name all the same.
TW_TEST_ON(Parts, TheBestModelOfShardsHasItsLayers, {.least = 4}) {
  const Mesh mesh(world(), {{"shard", 2}, {"layer", 2}});
  auto net = std::make_shared<LayerParallel>(mesh["layer"], blocks(), exact);
  net->to(torch::kDouble);
  const Model model = model_of(net);
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05).momentum(0.9));
  Options options = three_epochs("best_of_shards");
  options.checkpoint.every_epochs = 1;
  options.resume = Resume::fresh;
  options.epochs = 1;
  const auto data = squares(31);
  ASSERT_EQ(Trainer(mesh, model, sgd, tw::train::regression(), data, data, options, &data).run().best_epoch, 1);
  if (world().rank() != 0) return;
  const tw::SafetensorsFile saved(options.folder() / "best.safetensors");
  EXPECT_EQ(saved.names().size(), 28U);
  for (int layer = 0; layer < 12; ++layer) EXPECT_TRUE(saved.contains(tw::concat("1.", layer, ".linear.weight"))) << layer;
  EXPECT_TRUE(saved.contains("0.weight"));
}

TEST(Parts, AllLeaveOutWhatIsNotFiniteForOne) {
  const int layers = lengths().back();
  const Mesh mesh(world(), {{"data"}, {"layer", layers}});
  auto net = std::make_shared<LayerParallel>(mesh["layer"], blocks(), exact);
  net->to(torch::kDouble);
  const Model model = model_of(net);
  torch::optim::SGD sgd(model.tensors(), 0.05);
  const auto data = squares(31);
  at::Tensor inputs = torch::rand({31, 4}, torch::kDouble);
  inputs[7][0] = 1e200;  // the squared error is infinite
  const tw::TensorDataset spoiled(inputs, torch::ones({31, 1}, torch::kDouble));
  Options options = three_epochs("spoiled");
  options.non_finite = tw::train::NonFinite::skip;
  Trainer trainer(mesh, model, sgd, tw::train::regression(), spoiled, data, options);
  const auto summary = trainer.run();
  EXPECT_EQ(summary.skipped_steps, 3) << "one update of each epoch";
  for (const auto& parameter : model.parameters) EXPECT_TRUE(parameter.tensor.isfinite().all().item<bool>()) << parameter.name;
}

/// Only the rank with the closing layer sees it, and with a single model no reduction informs the others.
TEST(Parts, AllLeaveOutWhatIsNotFiniteInOnePart) {
  const Mesh mesh(world(), {{"data"}, {"layer", world().size()}});
  auto net = std::make_shared<LayerParallel>(mesh["layer"], blocks(), exact);
  net->to(torch::kDouble);
  const Model model = model_of(net);
  int backward_passes = 0;
  auto parameters = net->named_parameters();
  if (torch::Tensor* closing = parameters.find("2.weight")) {
    closing->register_hook([&](const torch::Tensor& g) { return ++backward_passes == 3 ? g * INFINITY : g; });
  }
  torch::optim::SGD sgd(model.tensors(), 0.05);
  const auto data = squares(31);
  Options options = three_epochs("one_part");
  options.non_finite = tw::train::NonFinite::skip;
  Trainer trainer(mesh, model, sgd, tw::train::regression(), data, data, options, &data);
  EXPECT_EQ(trainer.run().skipped_steps, 1);
  for (const auto& parameter : model.parameters) EXPECT_TRUE(parameter.tensor.isfinite().all().item<bool>()) << parameter.name;
}

TEST(Parts, TheTimelineShowsPhases) {
  Options options = three_epochs("phases");
  options.epochs = 1;
  options.trace = std::filesystem::path(testing::TempDir()) / "tw_train" / tw::concat("phases_", world().size(), ".json");
  std::filesystem::create_directories(options.trace.parent_path());
  std::shared_ptr<LayerParallel> net;
  run(world().size(), options, tw::testing::never, &net);
  net->forward(torch::ones({2, 4}, torch::kDouble));  // its observer is gone
  if (world().rank() != 0) return;
  std::ifstream in(options.trace);
  std::map<std::string, int> count;
  const auto timeline = nlohmann::json::parse(in);
  for (const auto& event : timeline["traceEvents"]) ++count[event["name"]];
  for (const char* phase : {"relax", "restrict", "solve", "last relaxation", "forward", "backward"}) EXPECT_GT(count[phase], 0) << phase;
}

TEST(Parts, RefusesWhatDoesNotFit) {
  const auto data = squares(31);
  auto net = std::make_shared<LayerParallel>(world(), blocks(), exact);
  net->to(torch::kDouble);
  const Model parts = model_of(net);
  torch::optim::SGD sgd(parts.tensors(), 0.05);
  const auto make = [&](const Mesh& mesh, const Model& model, const Options& options) {
    Trainer(mesh, model, sgd, tw::train::regression(), data, data, options, &data);
  };
  const Mesh plain(world(), {{"data"}});
  const Mesh without_data(world(), {{"layer"}});
  EXPECT_NO_THROW(make(without_data, parts, three_epochs("refused"))) << "an axis that is missing has one rank";
  const Mesh layers(world(), {{"data", 1}, {"layer"}});
  const Mesh stages(world(), {{"data", 1}, {"stage"}});
  EXPECT_THROW(make(plain, parts, three_epochs("refused")), tw::ContractError);
  EXPECT_THROW(make(stages, parts, three_epochs("refused")), tw::ContractError);
  const Model whole = model_of(std::shared_ptr<torch::nn::Module>(net), [net](const torch::Tensor& x) { return net->forward(x); });
  if (world().size() > 1) {  // of one rank nothing is divided
    EXPECT_THROW(make(layers, whole, three_epochs("refused")), tw::ContractError);
  }
}

}  // namespace parts_test
