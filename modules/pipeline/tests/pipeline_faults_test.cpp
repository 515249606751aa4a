// SPDX-License-Identifier: Apache-2.0
// An error on one rank stops no other rank from returning, and its message names the place.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/error.hpp>
#include <tw/pipeline/pipeline.hpp>

#include "reference.hpp"

namespace tw::pipeline {
namespace pipeline_faults_test {

using testing::message_of;
using testing::world;

/// Fails in the n-th forward or backward pass with a positive number of rows.
struct FailsImpl : torch::nn::Module {
  FailsImpl(bool goes_back, int n) : backward(goes_back), left(n) {}
  torch::Tensor forward(const torch::Tensor& x) {
    if (!backward && --left == 0) throw std::runtime_error("cannot go on");
    torch::Tensor y = x * 1;
    if (backward && y.requires_grad()) {
      y.register_hook([this](const torch::Tensor&) {
        if (--left == 0) throw std::runtime_error("cannot go back");
      });
    }
    return y;
  }
  bool backward;
  int left;
};
TORCH_MODULE(Fails);

/// Two layers for each stage, the second of which fails on stage `where`.
std::vector<BlockFactory> failing(int stages, int where, bool goes_back) {
  std::vector<BlockFactory> blocks(static_cast<size_t>(2 * stages), block([] { return torch::nn::Linear(3, 3); }));
  blocks[static_cast<size_t>(2 * where + 1)] = block([=] { return Fails(goes_back, 2); });
  return blocks;
}

torch::Tensor squares(const torch::Tensor& y, const torch::Tensor& t) { return (y - t).square().mean(); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(PipelineFaults, AStageThatThrowsSaysWhereAndReleasesTheOthers) {
  for (const bool goes_back : {false, true}) {
    for (const std::vector<int>& replicas : layouts(world().size())) {
      const auto stages = static_cast<int>(replicas.size());
      for (int where = 0; where < stages; ++where) {
        PipelineOptions options{.schedule = one_forward_one_backward(stages, 3), .replicas = replicas};
        const auto blocks = failing(stages, where, goes_back);
        Pipeline model(world(), blocks, options);
        const torch::Tensor x = torch::ones({24, 3});
        const std::string message = message_of([&] { model.run(x, x, squares); });
        // Replicas of the stage may fail at the same time, or receive the first one's error.
        const bool failed =
            has(message, concat("stage ", where, ", replica ")) && has(message, goes_back ? "cannot go back" : "cannot go on") &&
            has(message, goes_back ? "backward pass of micro-batch 1" : concat("forward pass of micro-batch 1: block ", 2 * where + 1));
        if (model.stages().front() == where && replicas[static_cast<size_t>(where)] == 1) {
          EXPECT_TRUE(failed) << message;
        }
        // Other ranks receive the error with the same text in its reason.
        EXPECT_TRUE(has(message, concat("stage ", where, ", replica "))) << message;
        EXPECT_TRUE(has(message_of([&] { model.run(x, x, squares); }), "make a new Pipeline")) << "of no use any more";
      }
    }
  }
  world().barrier();  // still usable
}

TEST(PipelineFaults, AFactoryThatThrowsReleasesTheOthers) {
  const auto make = [] {
    if (world().rank() == 0) throw std::runtime_error("no such layer");
    return torch::nn::Linear(3, 3);
  };
  const std::vector<BlockFactory> blocks(static_cast<size_t>(world().size()), block(make));
  EXPECT_ANY_THROW(Pipeline(world(), blocks, {.schedule = gpipe(world().size(), 2)}));
  world().barrier();
}

TEST(PipelineFaults, ARefusedBatchHasNotHappened) {
  const auto replicas = layouts(world().size()).back();
  PipelineOptions options{.schedule = gpipe(static_cast<int>(replicas.size()), 4), .replicas = replicas};
  const std::vector<BlockFactory> blocks(replicas.size(), block([] { return torch::nn::Linear(3, 3); }));
  Pipeline model(world(), blocks, options);
  const torch::Tensor x = torch::ones({8, 3});
  EXPECT_THROW(model.run(x, torch::ones({6, 3}), squares), ContractError);
  EXPECT_THROW(model.run(torch::ones({0, 3}), torch::ones({0, 3}), squares), ContractError);
  EXPECT_THROW(model.run(torch::Tensor(), torch::Tensor(), squares), ContractError);
  EXPECT_THROW(model.run({x, torch::ones({7})}, {x}, [](const Tensors& y, const Tensors&) { return y[0].mean(); }), ContractError);
  if (world().size() > 1) {
    EXPECT_THROW(world().rank() == 0 ? model.forward(x).sum().item<double>() : model.run(x, x, squares), ContractError);
  }
  EXPECT_NO_THROW(model.run(x, x, squares));
  EXPECT_NO_THROW(model.run(torch::ones({1, 3}), torch::ones({1, 3}), squares)) << "three micro-batches are empty";
}

TEST(PipelineFaults, OptionsAreChecked) {
  const int size = world().size();
  const std::vector<BlockFactory> blocks(static_cast<size_t>(size), block([] { return torch::nn::Linear(3, 3); }));
  const auto refuses = [&](const PipelineOptions& options, const std::string& why) {
    const std::string message = message_of([&] { Pipeline(world(), blocks, options); });
    EXPECT_TRUE(has(message, why)) << message;
  };
  const PipelineOptions good{.schedule = gpipe(size, 2)};
  const auto stages = static_cast<size_t>(size);
  PipelineOptions options = good;
  options.replicas.assign(stages, 2);
  refuses(options, concat("the stages have ", 2 * size, " ranks"));
  options = good;
  options.replicas.assign(stages, 0);
  refuses(options, "replicas must be at least 1, got 0");
  options = good;
  options.replicas.assign(stages + 1, 1);
  refuses(options, "replicas has");
  options = good;
  options.recompute.assign(stages + 1, Recompute::full);
  refuses(options, "recompute has");
  options = good;
  options.schedule.devices[0].pop_back();
  refuses(options, "the schedule does not run");
  options = good;
  options.schedule = zero_bubble_h1(size, 2);
  refuses(options, "blocks run as they are, so backward passes cannot run in halves");
  if (size == 1) return;
  options = good;
  options.schedule.devices.push_back({});
  refuses(options, "has no stage");
  options = good;
  options.seed = static_cast<uint64_t>(world().rank());
  refuses(options, "seed");
}

TEST(PipelineFaults, AParameterThatIsTrainedAgainIsNamedOnAllRanks) {
  for (const std::vector<int>& replicas : layouts(world().size())) {
    const auto stages = static_cast<int>(replicas.size());
    const std::vector<BlockFactory> blocks(replicas.size(), block([] {
                                             torch::nn::Linear layer(3, 3);
                                             layer->bias.requires_grad_(false);
                                             return layer;
                                           }));
    Pipeline model(world(), blocks, {.schedule = gpipe(stages, 2), .replicas = replicas});
    const torch::Tensor x = torch::ones({8, 3});
    EXPECT_NO_THROW(model.run(x, x, squares));
    const std::string bias = concat(stages - 1, ".bias");
    if (model.stages().front() == stages - 1) model.named_parameters()[bias].requires_grad_(true);
    const std::string message = message_of<ContractError>([&] { model.run(x, x, squares); });
    EXPECT_TRUE(has(message, concat("parameter '", bias, "' of stage ", stages - 1, " requires a gradient, unlike when the pipeline was made")))
        << message;
    if (model.stages().front() == stages - 1) model.named_parameters()[bias].requires_grad_(false);
    EXPECT_NO_THROW(model.run(x, x, squares)) << "nothing has happened";
  }
}

/// Changes a parameter in its forward pass.
struct ShrinksImpl : torch::nn::Module {
  ShrinksImpl() : scale(register_parameter("scale", torch::ones({3}))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    {
      const torch::NoGradGuard no_gradients;
      scale.mul_(0.9);
    }
    return x * scale.clone();
  }
  torch::Tensor scale;
};
TORCH_MODULE(Shrinks);

TEST(PipelineFaults, RecomputationDoesNotChangeParametersTwice) {
  const std::vector<BlockFactory> blocks(static_cast<size_t>(world().size()), block([] { return Shrinks(); }));
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    PipelineOptions options{.schedule = gpipe(world().size(), 2)};
    options.recompute.assign(blocks.size(), recompute);
    Pipeline model(world(), blocks, options);
    const torch::Tensor x = torch::ones({8, 3});
    if (recompute == Recompute::none) {
      EXPECT_NO_THROW(model.run(x, x, squares));
    } else {
      const std::string message = message_of([&] { model.run(x, x, squares); });
      EXPECT_TRUE(has(message, ".scale' is changed by the forward pass, and recomputation would change it again")) << message;
    }
  }
}

/// Reads and changes a shared counter.
struct CountsImpl : torch::nn::Module {
  explicit CountsImpl(torch::Tensor shared) : count(register_buffer("count", std::move(shared))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    if (is_training()) count.add_(1);
    return x * count.clone();
  }
  torch::Tensor count;
};
TORCH_MODULE(Counts);

TW_TEST_ON(PipelineFaults, ABufferThatTwoStagesChangeIsNamed, {.least = 2}) {
  const torch::Tensor shared = torch::zeros({});
  const std::vector<BlockFactory> blocks(static_cast<size_t>(world().size()), block([shared] { return Counts(shared); }));
  Pipeline model(world(), blocks, {.schedule = gpipe(world().size(), 2)});
  const torch::Tensor x = torch::ones({8, 3});
  const std::string message = message_of([&] { model.run(x, x, squares); });
  EXPECT_TRUE(has(message, "'0.count' is changed by stage 0 and by stage 1")) << message;
}

TEST(PipelineFaults, ABufferThatTwoStagesOfARankChangeIsNamed) {
  const int size = world().size();
  const torch::Tensor shared = torch::zeros({});
  std::vector<BlockFactory> blocks(static_cast<size_t>(2 * size), block([] { return torch::nn::Identity(); }));
  blocks.front() = blocks[static_cast<size_t>(size)] = block([shared] { return Counts(shared); });
  Pipeline model(world(), blocks, {.schedule = interleaved(size, 2, 2)});
  const torch::Tensor x = torch::ones({8, 3});
  const std::string message = message_of([&] { model.run(x, x, squares); });
  EXPECT_TRUE(has(message, concat("'0.count' is changed by stage 0 and by stage ", size))) << message;
}

TEST(PipelineFaults, ARankNeedsAFunctionForEachStage) {
  const auto module = std::make_shared<torch::nn::Module>();
  const StageModel one{module, {{[](const Tensors& x, const graph::PassRows& /*rows*/) { return x; }}}};
  const std::string message = message_of([&] { Pipeline(world(), one, {.schedule = interleaved(world().size(), 2, 2)}); });
  EXPECT_TRUE(has(message, "but `stages` has 1 entries")) << message;
}

struct NamedImpl : torch::nn::Module {
  explicit NamedImpl(const std::string& name) : weight(register_parameter(name, torch::ones({3}))) {}
  torch::Tensor weight;
};

TEST(PipelineFaults, NamesOfSeveralStagesAreTiedOrRefused) {
  const PipelineOptions options{.schedule = gpipe(world().size(), 2)};
  const auto stage = [](const std::string& name, const std::map<std::string, std::string>& tied) {
    const auto module = std::make_shared<NamedImpl>(name);
    return StageModel{module, {{[module](const Tensors& x, const graph::PassRows& /*rows*/) { return Tensors{x[0] * module->weight}; }}}, tied};
  };
  const auto refuses = [&](const StageModel& mine, const std::string& why) {
    const std::string message = message_of([&] { Pipeline(world(), mine, options); });
    EXPECT_TRUE(has(message, why)) << message;
  };
  const std::string own = concat("own", world().rank());
  refuses(stage(own, {{own, own}}), "'own0' is tied on stage 0 only");
  refuses(stage(own, {{"other", "other"}}), "there is no parameter that is tied as 'other'");
  if (world().size() == 1) return;
  refuses(stage("same", {}), "both have a parameter 'same'");
  EXPECT_NO_THROW(Pipeline(world(), stage("same", {{"same", "same"}}), options));
}

TW_TEST_ON(PipelineFaults, AForgottenTieOfSeveralStagesOfARankIsNamed, {.least = 2}) {
  const PipelineOptions options{.schedule = interleaved(world().size(), 2, 2)};
  const std::string name = world().rank() < 2 ? "same" : concat("own", world().rank());
  const auto module = std::make_shared<NamedImpl>(name);
  const Stage stage{[module](const Tensors& x, const graph::PassRows& /*rows*/) { return Tensors{x[0] * module->weight}; }};
  StageModel mine{module, {stage, stage}};
  if (world().rank() == 0) mine.tied["same"] = "same";
  const std::string message = message_of([&] { Pipeline(world(), mine, options); });
  EXPECT_TRUE(has(message, "which other stages tie, but these do not")) << message;
}

/// Two blocks with one weight, of which the first changes it in place in each pass.
struct SharedWeight : torch::nn::Module {
  SharedWeight(const torch::Tensor& shared, bool is_changing) : weight(register_parameter("weight", shared)), changes(is_changing) {}
  torch::Tensor forward(const torch::Tensor& x) {
    if (!changes) return x * weight;
    const torch::NoGradGuard no_gradients;
    weight.mul_(1.5);
    return x;
  }
  torch::Tensor weight;
  bool changes;
};

TW_TEST_ON(PipelineFaults, RecomputationRefusesAWeightThatAnotherStageOfTheRankHasChanged, {.least = 2}) {
  const int size = world().size();
  const torch::Tensor weight = torch::ones({3});
  std::vector<BlockFactory> blocks(static_cast<size_t>(2 * size), block([] { return torch::nn::Identity(); }));
  for (const bool changes : {true, false}) {
    blocks[changes ? 0 : static_cast<size_t>(size)] = [weight, changes] {
      const auto module = std::make_shared<SharedWeight>(weight, changes);
      return Block{module, [module](const torch::Tensor& x) { return module->forward(x); }};
    };
  }
  PipelineOptions options{.schedule = interleaved(size, 2, 2 * size), .recompute = std::vector(static_cast<size_t>(2 * size), Recompute::none)};
  options.recompute[static_cast<size_t>(size)] = Recompute::full;
  Pipeline model(world(), blocks, options);
  const torch::Tensor x = torch::ones({4 * size, 3});
  const std::string message = message_of([&] { model.run(x, x, squares); });
  EXPECT_TRUE(has(message, "'0.weight' has been changed by another stage of this rank")) << message;
}

/// A stage may have only one tensor under a tied name, whatever other names it has there.
TEST(PipelineFaults, TwoTensorsOfAStageAreNotTiedByOneName) {
  const PipelineOptions options{.schedule = gpipe(world().size(), 2)};
  struct PairImpl : torch::nn::Module {
    explicit PairImpl(bool one_tensor)
        : first(register_parameter("first", torch::ones({3}))), second(register_parameter("second", one_tensor ? first : torch::ones({3}))) {}
    torch::Tensor first;
    torch::Tensor second;
  };
  const auto stage = [](bool one_tensor) {
    const auto module = std::make_shared<PairImpl>(one_tensor);
    return StageModel{module,
                      {{[module](const Tensors& x, const graph::PassRows& /*rows*/) { return Tensors{x[0] * module->first * module->second}; }}},
                      {{"first", "shared"}, {"second", "shared"}}};
  };
  const int wrong = world().size() - 1;  // the other stages are correct
  const std::string message = message_of([&] { Pipeline(world(), stage(world().rank() != wrong), options); });
  EXPECT_TRUE(has(message, concat("stage ", wrong, ": 'first' and 'second' are tied as 'shared', but they are two tensors"))) << message;
  if (world().size() > 1) {
    EXPECT_NO_THROW(Pipeline(world(), stage(true), options));
  }
}

/// Values are split by rows for replicas, so the rows must be the first dimension.
TW_TEST_ON(PipelineFaults, WhatIsCutHasItsRowsInFront, {.least = 3}) {
  PipelineOptions options{.schedule = gpipe(2, 2), .replicas = {1, world().size() - 1}};
  struct MeanImpl : torch::nn::Module {
    torch::Tensor forward(const torch::Tensor& x) { return x.mean(0, true); }
  };
  const BlockFactory mean = [] {
    const auto module = std::make_shared<MeanImpl>();
    return Block{module, [module](const torch::Tensor& x) { return module->forward(x); }};
  };
  Pipeline model(world(), {mean, block([] { return torch::nn::Linear(3, 3); })}, options);
  const torch::Tensor x = torch::ones({12, 3});
  const std::string message = message_of([&] { model.run(x, x, squares); });
  EXPECT_TRUE(has(message, "its first dimension must be the rows")) << message;
}

}  // namespace pipeline_faults_test
}  // namespace tw::pipeline
