// SPDX-License-Identifier: Apache-2.0
// What users do around a ParallelModel, to its module, its tensors and its loss: on every axis as in one process, or an error on all ranks.
// All places get the same samples, so that one process with these is the reference. Tolerance: 1e-10 relative, in float64.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <sstream>
#include <string_view>
#include <tw/base/log.hpp>
#include <tw/comm/objects.hpp>
#include <tw/data_parallel/local_sgd.hpp>
#include <tw/data_parallel/sync_batch_norm.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/parallel_model.hpp>
#include <tw/tensor_parallel.hpp>

namespace mesh_user_test {

using tw::MeshAxis;
using tw::ParallelModel;
using tw::testing::message_of;
using tw::testing::world;

using Axes = std::vector<MeshAxis>;
const std::vector<Axes> shapes{{{"data", -1}}, {{"shard", -1}}, {{"stage", -1}}, {{"data", 2}, {"stage", 2}}, {{"shard", 2}, {"stage", 2}}};

bool has(const Axes& axes, const std::string& name) {
  return std::ranges::any_of(axes, [&](const MeshAxis& each) { return each.name == name; });
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(6, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    drop = register_module("drop", torch::nn::Dropout(0.5));
    second = register_module("second", torch::nn::Linear(8, 8));
    third = register_module("third", torch::nn::Linear(8, 8));
    last = register_module("last", torch::nn::Linear(8, 3));
    index = register_parameter("index", torch::arange(3), false);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = drop(norm(first(normalises ? x / x.norm(2, 1, true) : x)));
    const at::Tensor z = last(torch::tanh(third(torch::tanh(second(y)))));
    return masks ? z.index_fill(1, index.narrow(0, 0, 1), -std::numeric_limits<double>::infinity()) : z;
  }
  bool normalises = false;  ///< not differentiable at 0
  bool masks = false;       ///< the first output
  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr}, last{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout drop{nullptr};
  at::Tensor index;
};
TORCH_MODULE(Net);

/// Without dropout, but for the tests of modes.
Net make_net(bool drops = false) {
  torch::manual_seed(5);
  Net net;
  net->drop->options.p(drops ? 0.5 : 0);
  net->to(torch::kDouble);
  net->index.set_data(torch::arange(3));
  return net;
}

at::Tensor rows(int64_t count = 6) {
  torch::manual_seed(7);
  return torch::randn({count, 6}, torch::kDouble);
}
at::Tensor labels(int64_t count = 6) { return torch::arange(count) % 2 + 1; }

tw::Loss loss() { return torch::nn::CrossEntropyLoss(); }

ParallelModel divide(const Axes& axes, Net net, const tw::ParallelOptions& options = {}, const at::Tensor& example = rows()) {
  return tw::parallelize(tw::Mesh(world(), axes), *net, {example}, options);
}

template <class Check>
void on_each_mesh(const Check& check) {
  for (const Axes& axes : shapes) {
    SCOPED_TRACE(tw::MeshShape(world().size(), axes).describe());
    EXPECT_NO_THROW(check(axes));
    world().barrier();
  }
}

void expect_error(const std::string& text, const std::function<void()>& call) {
  const std::string error = message_of(call);
  EXPECT_NE(error.find(text), std::string::npos) << error;
}

double norm_of_gradients(const torch::nn::Module& module) {
  double squares = 0;
  for (const at::Tensor& each : module.parameters()) squares += each.grad().defined() ? each.grad().square().sum().item<double>() : 0;
  return std::sqrt(squares);
}
double norm_of_gradients(ParallelModel& model) { return model.clip_grad_norm(1e300); }

void expect_near(double ours, double expected) { EXPECT_NEAR(ours, expected, 1e-10 * std::abs(expected)); }

void pass(Net& net, const at::Tensor& x, const at::Tensor& t) { torch::nn::functional::cross_entropy(net(x), t).backward(); }

TEST(MeshUser, TrainsAndEvaluatesInTheModeOfTheModule) {
  on_each_mesh([](const Axes& axes) {
    Net plain = make_net(true);
    plain->eval();
    const at::Tensor expected = plain(rows());
    Net net = make_net(true);
    net->eval();
    ParallelModel model = divide(axes, net);  // in evaluation mode, as after loading
    const auto evaluates = [&] { return model.forward(rows()).allclose(expected, 1e-10, 1e-10); };
    EXPECT_TRUE(evaluates());
    net->train();
    EXPECT_FALSE(evaluates()) << "no dropout";
    net->eval();
    model.train();
    EXPECT_FALSE(evaluates()) << "no dropout";
  });
  for (const tw::ReplicaSync replicas : {tw::ReplicaSync::every_step, tw::ReplicaSync::independent}) {
    Net net = make_net();
    ParallelModel model = divide({{"data", 2}, {"stage", 2}}, net, {.replicas = replicas});
    if (world().rank() > 0) net->drop->eval();
    expect_error(world().rank() > 0 ? "part 'drop'" : "cannot make a pass, for the reason in its own error",
                 [&] { model.train_step(rows(), labels(), loss()); });
    net->train();
    EXPECT_GT(model.train_step(rows(), labels(), loss()), 0) << "nothing had begun";
  }
  Net net = make_net();
  net->eval();
  net->drop->train();
  expect_error("part 'drop'", [&] { (void)divide({{"stage", -1}}, net); });
}

TEST(MeshUser, RecordsItsPassesByItself) {
  on_each_mesh([](const Axes& axes) {
    Net plain = make_net();
    pass(plain, rows(), labels());
    Net net = make_net();
    ParallelModel model = divide(axes, net);
    const torch::NoGradGuard no_grad;
    EXPECT_GT(model.train_step(rows(), labels(), loss()), 0);
    expect_near(norm_of_gradients(model), norm_of_gradients(*plain));
  });
}

struct ChainImpl : torch::nn::Module {
  ChainImpl() {
    torch::manual_seed(5);
    for (int i = 0; i < 12; ++i) layers->push_back(torch::nn::Linear(6, 6));
    register_module("layers", layers);
    to(torch::kDouble);
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& each : *layers) x = torch::tanh(each->as<torch::nn::Linear>()->forward(x));
    return x;
  }
  torch::nn::ModuleList layers;
};
TORCH_MODULE(Chain);

/// The planner knows no limit of memory here, and chooses by measured times: whatever it is, the numbers are those of one process.
TEST(MeshUser, LeavesTheScheduleToThePlanner) {
  on_each_mesh([](const Axes& axes) {
    Chain plain;
    torch::nn::functional::cross_entropy(plain(rows()), labels()).backward();
    Chain chain;
    ParallelModel model = tw::parallelize(tw::Mesh(world(), axes), *chain, {rows()}, {.micro_batches = 6, .schedule = std::nullopt});
    EXPECT_GT(model.train_step(rows(), labels(), loss()), 0);
    expect_near(norm_of_gradients(model), norm_of_gradients(*plain));
    if (has(axes, "stage") && world().rank() == 0) {
      EXPECT_NE(model.explain().find("other schedules: "), std::string::npos) << model.explain();
    }
  });
}

TEST(MeshUser, LeavesTheModuleWhereItRefusesOptions) {
  on_each_mesh([](const Axes& axes) {
    Net net = make_net();
    expect_error("mixed precision", [&] { (void)divide(axes, net, {.compute = tw::ComputeType::bfloat16}); });
    ParallelModel model = divide(axes, net);
    EXPECT_GT(model.train_step(rows(), labels(), loss()), 0);
  });
}

TEST(MeshUser, FindsValuesOfOtherStagesNowhere) {
  const Axes axes{{"stage", -1}};
  Net net = make_net();
  ParallelModel model = divide(axes, net);
  size_t found = 0;
  for (const at::Tensor& each : net->parameters()) {
    const std::string error = message_of([&] { (void)each.sum(); });
    EXPECT_TRUE(error == "nothing thrown" || error.find("belongs to another stage") != std::string::npos) << error;
    found += error == "nothing thrown" ? 1 : 0;
  }
  EXPECT_LT(found, net->parameters().size());
  expect_error("has no values on this rank", [&] { (void)divide(axes, net); });
  Net of_two = make_net();
  const tw::Mesh mesh(world(), {{"data", 2}, {"stage", 2}});
  const ParallelModel replicated = tw::parallelize(mesh, *of_two, {rows()});
  expect_error("has no values on this rank", [&] { tw::synchronize(mesh["data"], *of_two); });
  const auto penalised = [&](const at::Tensor& y, const at::Tensor& t) {
    at::Tensor sum = torch::nn::functional::cross_entropy(y, t);
    for (const at::Tensor& each : net->parameters()) {
      if (each.is_floating_point()) sum = sum + each.square().sum();
    }
    return sum;
  };
  expect_error("belongs to another stage", [&] { model.train_step(rows(), labels(), penalised); });
}

TEST(MeshUser, ClipsBetweenTwoStepsOfAnUpdate) {
  on_each_mesh([](const Axes& axes) {
    Net plain = make_net();
    pass(plain, rows(), labels());
    torch::nn::utils::clip_grad_norm_(plain->parameters(), 0.01);
    pass(plain, rows(), labels());
    Net net = make_net();
    ParallelModel model = divide(axes, net);
    model.train_step(rows(), labels(), loss());
    model.clip_grad_norm(0.01);
    model.train_step(rows(), labels(), loss());
    expect_near(norm_of_gradients(model), norm_of_gradients(*plain));
  });
}

TEST(MeshUser, RefusesToCombineTheGradientsOfAPart) {
  on_each_mesh([](const Axes& axes) {
    Net plain = make_net();
    Net net = make_net();
    ParallelModel model = divide(axes, net);
    torch::optim::SGD sgd(model.parameters(), 0.1);
    for (int64_t update = 0; update < 2; ++update) {
      plain->zero_grad();
      sgd.zero_grad(update == 1);
      for (int64_t step = 0; step < 2; ++step) {  // the second one adds to gradients that are guarded
        pass(plain, rows(), labels());
        model.train_step(rows(), labels(), loss());
      }
      expect_near(norm_of_gradients(model), norm_of_gradients(*plain));
      if (!has(axes, "stage") && !has(axes, "shard")) continue;
      expect_error("clip_grad_norm() of a ParallelModel", [&] { torch::nn::utils::clip_grad_norm_(model.parameters(), 1.0); });
      torch::optim::LBFGS lbfgs(model.parameters());
      expect_error("(LBFGS)", [&] { lbfgs.step([] { return torch::zeros({}); }); });
      expect_error("LBFGS makes several passes per step", [&] { model.step(lbfgs); });
      EXPECT_NO_THROW(torch::nn::utils::clip_grad_value_(model.parameters(), 1e9));
    }
  });
}

// Along `layer`, where another rank has other steps of a block.
TEST(MeshUser, RefusesToCombineTheGradientsOfLayers) {
  using namespace tw::layer_parallel;
  const auto linear = [](int64_t in, int64_t out) { return block([=] { return torch::nn::Linear(in, out); }, 1); };
  const Block steps = block([] { return torch::nn::Sequential(torch::nn::Linear(8, 8), torch::nn::Tanh()); }, 8);
  const std::vector<Block> blocks{linear(6, 8), steps, linear(8, 8), steps, linear(8, 3)};
  for (const Axes& axes :
       {Axes{{"layer", -1}}, Axes{{"data", 2}, {"layer", 2}}, Axes{{"shard", 2}, {"layer", 2}}, Axes{{"stage", 2}, {"layer", 2}}}) {
    SCOPED_TRACE(tw::MeshShape(world().size(), axes).describe());
    const at::Tensor x = rows().to(torch::kFloat);
    ParallelModel model = tw::parallelize(tw::Mesh(world(), axes), blocks, {x}, {.coarsening = 2, .min_coarse = 1});
    torch::optim::SGD sgd(model.parameters(), 0.1);
    for (int update = 0; update < 2; ++update) {
      sgd.zero_grad(update == 1);
      model.train_step(x, labels(), loss());
      expect_error("clip_grad_norm() of a ParallelModel", [&] { torch::nn::utils::clip_grad_norm_(model.parameters(), 1.0); });
      torch::optim::LBFGS lbfgs(model.parameters());
      expect_error("(LBFGS)", [&] { lbfgs.step([] { return torch::zeros({}); }); });
      EXPECT_GT(model.clip_grad_norm(1.0), 0);
    }
    world().barrier();
  }
}

// Ranks along `tensor` have slices of some parameters and replicas of others: no list of gradients has each element once. Ranks with plain layers
// only say the same.
TEST(MeshUser, NamesAClippingThatCountsSlicesOnce) {
  using namespace tw::layer_parallel;
  using tw::tensor_parallel::ColumnParallelLinear;
  using tw::tensor_parallel::RowParallelLinear;
  const tw::Mesh mesh(world(), {{"layer", 2}, {"tensor", 2}});
  const Block plain = block([] { return torch::nn::Linear(8, 8); }, 4);
  const Block split = block(
      [&] { return torch::nn::Sequential(ColumnParallelLinear(mesh["tensor"], 8, 8), torch::nn::Tanh(), RowParallelLinear(mesh["tensor"], 8, 8)); },
      1);
  LayerParallel net(mesh["layer"], {plain, split}, {.coarsening = 2, .min_coarse = 1});
  net.forward(torch::ones({2, 8})).sum().backward();
  expect_error("clip by clip_grad_norm() of a ParallelModel", [&] { torch::nn::utils::clip_grad_norm_(net.parameters(), 1.0); });
  world().barrier();
}

TEST(MeshUser, HasNoTraceOfExamplesWhoseDerivativesAreInfinite) {
  on_each_mesh([](const Axes& axes) {
    Net plain = make_net();
    plain->normalises = true;
    for (const int64_t begin : {0, 2}) {  // two micro-batches
      torch::nn::functional::cross_entropy(plain(rows(4).narrow(0, begin, 2)), labels(4).narrow(0, begin, 2)).div(2).backward();
    }
    Net net = make_net();
    net->normalises = true;
    ParallelModel model = divide(axes, net, {.micro_batches = 2}, torch::zeros({4, 6}, torch::kDouble));
    const int64_t count = model.place() == 1 ? 0 : 4;
    model.train_step(rows(count), labels(count), loss());
    expect_near(norm_of_gradients(model), norm_of_gradients(*plain));
  });
}

// Padding: rows of zeros, whose labels do not count, in a micro-batch of their own. Stages do not promise this.
TEST(MeshUser, HasNoTraceOfPadding) {
  for (const Axes& axes : {shapes[0], shapes[1]}) {
    const tw::Loss ignoring = torch::nn::CrossEntropyLoss(torch::nn::CrossEntropyLossOptions().ignore_index(0));
    Net plain = make_net();
    plain->normalises = true;
    pass(plain, rows(2), labels(2));
    Net net = make_net();
    net->normalises = true;
    ParallelModel model = divide(axes, net, {.micro_batches = 2});
    model.train_step(torch::cat({rows(2), torch::zeros({2, 6}, torch::kDouble)}), torch::cat({labels(2), torch::zeros({2}, torch::kLong)}), ignoring);
    expect_near(norm_of_gradients(model), norm_of_gradients(*plain));
  }
}

TEST(MeshUser, FreezesByTheTensorsOfTheOptimizer) {
  on_each_mesh([](const Axes& axes) {
    Net net = make_net();
    ParallelModel model = divide(axes, net);
    const std::vector<at::Tensor> tensors = model.parameters();
    torch::optim::SGD sgd(tensors, 0.1);
    if (!tensors.empty()) tensors.front().requires_grad_(false);
    const at::Tensor frozen = tensors.empty() ? at::Tensor() : tensors.front().detach().clone();
    for (int update = 0; update < 2; ++update) {
      model.train_step(rows(), labels(), loss());
      sgd.step();
    }
    EXPECT_TRUE(tensors.empty() || tensors.front().equal(frozen));
  });
}

TEST(MeshUser, RefusesSlicesInOtherMemory) {
  Net net = make_net();
  ParallelModel model = divide({{"shard", -1}}, net);
  at::Tensor slice = model.parameters().front();
  slice.set_data(slice.detach().clone());
  expect_error("set_data()", [&] { model.train_step(rows(), labels(), loss()); });
}

/// What the ranks logged in `call`. Collective.
std::string logged(const std::function<void()>& call) {
  std::string mine;
  tw::set_log_function([&](tw::LogLevel /*level*/, std::string_view line) { mine += line; });
  EXPECT_NO_THROW(call());
  tw::set_log_function({});
  std::string all;
  for (const std::string& each : tw::allgather_strings(world(), mine)) all += each;
  return all;
}

TEST(MeshUser, WarnsOfLossesWithParametersOfTheirOwn) {
  on_each_mesh([](const Axes& axes) {
    const at::Tensor scale = torch::ones({}, torch::kDouble).requires_grad_();
    const auto step = [&](const tw::Loss& loss, const at::Tensor& inputs) {
      Net net = make_net();
      ParallelModel model = divide(axes, net, {.micro_batches = 2});
      return logged([&] { model.train_step(inputs, labels(), loss); });
    };
    const auto cross_entropy = [](const at::Tensor& y, const at::Tensor& t) { return torch::nn::functional::cross_entropy(y, t); };
    const auto learnt = [&](const at::Tensor& y, const at::Tensor& t) { return cross_entropy(y, t) * torch::exp(-scale) + scale; };
    const std::string warning = step(tw::Loss(learnt), rows());
    const size_t found = warning.find("is no parameter of the model");
    EXPECT_EQ(found != std::string::npos, has(axes, "data") || has(axes, "shard")) << warning;
    EXPECT_EQ(warning.find("is no parameter of the model", found + 1), std::string::npos) << "more than once";
    EXPECT_EQ(step(tw::Loss(cross_entropy), rows().requires_grad_()).find("is no parameter"), std::string::npos);
  });
}

TEST(MeshUser, TakesPenaltiesInTheLoss) {
  const auto penalty = [](const torch::nn::Module& module) {
    at::Tensor sum = torch::zeros({}, torch::kDouble);
    for (const at::Tensor& each : module.parameters()) {
      if (each.is_floating_point()) sum = sum + each.square().sum();
    }
    return sum;
  };
  for (const Axes& axes : {shapes[0], shapes[1]}) {
    Net plain = make_net();
    (torch::nn::functional::cross_entropy(plain(rows()), labels()) + penalty(*plain)).backward();
    Net net = make_net();
    ParallelModel model = divide(axes, net);
    model.train_step(rows(), labels(),
                     [&](const at::Tensor& y, const at::Tensor& t) { return torch::nn::functional::cross_entropy(y, t) + penalty(*net); });
    expect_near(norm_of_gradients(model), norm_of_gradients(*plain));
  }
}

TEST(MeshUser, RefusesParametersThatComeLater) {
  on_each_mesh([](const Axes& axes) {
    Net net = make_net();
    ParallelModel model = divide(axes, net);
    net->register_parameter("late", torch::ones(2, torch::kDouble));
    expect_error("late is a parameter of the module, unlike when parallelize() was called", [&] { model.train_step(rows(), labels(), loss()); });
  });
  on_each_mesh([](const Axes& axes) {
    Net net = make_net();
    net->second->bias.requires_grad_(false);
    ParallelModel model = divide(axes, net);
    net->second->bias.requires_grad_(true);
    expect_error("second.bias requires a gradient, unlike when parallelize() was called", [&] { model.train_step(rows(), labels(), loss()); });
  });
}

TEST(MeshUser, RefusesLayersThatCommunicateOrRenormalise) {
  on_each_mesh([](const Axes& axes) {
    const tw::Mesh mesh(world(), axes);
    torch::nn::Sequential norms(torch::nn::Linear(6, 6), tw::SyncBatchNorm(world(), torch::nn::BatchNormOptions(6), tw::Reduction::sum),
                                torch::nn::Linear(6, 6));
    expect_error("SyncBatchNorm", [&] { (void)tw::parallelize(mesh, *norms, {torch::randn({4, 6})}); });
    if (!has(axes, "data") && !has(axes, "shard")) return;
    const auto embedding = [] { return torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 6).max_norm(1)); };
    torch::nn::Sequential words(embedding(), torch::nn::Linear(6, 6), torch::nn::Linear(6, 6));
    expect_error("max_norm", [&] { (void)tw::parallelize(mesh, *words, {torch::zeros({4}, torch::kLong)}); });
    const auto linear = tw::pipeline::block([] { return torch::nn::Linear(6, 6); });
    expect_error("max_norm", [&] {
      (void)tw::parallelize(mesh, std::vector<tw::pipeline::BlockFactory>{tw::pipeline::block(embedding), linear}, {torch::zeros({4}, torch::kLong)});
    });
  });
  using tw::layer_parallel::block;
  const auto linear = [] { return torch::nn::Linear(6, 6); };
  const auto norm = [] { return tw::SyncBatchNorm(world(), torch::nn::BatchNormOptions(6), tw::Reduction::sum); };
  const std::vector<tw::layer_parallel::Block> layers{block(linear, 1), block(linear, 4), block(norm, 1)};
  expect_error("SyncBatchNorm", [&] { (void)tw::parallelize(tw::Mesh(world(), {{"data", -1}}), layers, {torch::randn({4, 6})}, {}); });
}

TEST(MeshUser, KeepsFrozenIndices) {
  on_each_mesh([](const Axes& axes) {
    Net net = make_net();
    ParallelModel model = divide(axes, net);
    const auto whole = model.whole_on_root();
    if (world().rank() != 0) return;
    const auto found = std::ranges::find(whole, "index", &tw::NamedTensor::name);
    ASSERT_NE(found, whole.end());
    EXPECT_TRUE(found->tensor.equal(torch::arange(3)));
  });
}

// The second micro-batch has rows, but no target that counts.
TEST(MeshUser, SeesRowsWithoutTargets) {
  on_each_mesh([](const Axes& axes) {
    const tw::Loss ignoring = torch::nn::CrossEntropyLoss(torch::nn::CrossEntropyLossOptions().ignore_index(0));
    at::Tensor targets = labels();
    targets.narrow(0, 3, 3).zero_();
    Net plain = make_net();
    plain->masks = true;
    const double expected = torch::nn::functional::cross_entropy(plain(rows().narrow(0, 0, 3)), targets.narrow(0, 0, 3)).item<double>();
    (void)plain(rows().narrow(0, 3, 3));
    Net net = make_net();
    net->masks = true;
    ParallelModel model = divide(axes, net, {.micro_batches = 2});
    expect_near(model.train_step(rows(), targets, ignoring), expected);
    EXPECT_TRUE(std::isfinite(norm_of_gradients(model)));
    const auto whole = model.whole_on_root();
    if (world().rank() != 0) return;
    const auto mean = std::ranges::find(whole, "norm.running_mean", &tw::NamedTensor::name);
    ASSERT_NE(mean, whole.end());
    EXPECT_TRUE(mean->tensor.allclose(plain->norm->running_mean, 1e-10, 1e-12));
  });
}

TEST(MeshUser, RefusesLossesWithoutAGradient) {
  on_each_mesh([](const Axes& axes) {
    Net net = make_net();
    ParallelModel model = divide(axes, net);
    const auto detached = [](const at::Tensor& y, const at::Tensor& t) { return torch::nn::functional::cross_entropy(y, t).detach(); };
    expect_error("depends on no parameter that is trained", [&] { model.train_step(rows(), labels(), detached); });
  });
}

TEST(MeshUser, RefusesInputsThatOtherModulesCompute) {
  on_each_mesh([](const Axes& axes) {
    torch::manual_seed(3);
    torch::nn::Linear body(6, 6);
    body->to(torch::kDouble);
    Net net = make_net();
    ParallelModel model = divide(axes, net);
    expect_error("detach() them", [&] { model.train_step(body(rows()), labels(), loss()); });
    EXPECT_GT(model.train_step(body(rows()).detach(), labels(), loss()), 0) << "nothing had begun";
  });
}

TEST(MeshUser, RefusesGradientsThatNoStepMakes) {
  for (const Axes& axes : {shapes[0], shapes[1]}) {
    Net net = make_net();
    ParallelModel model = divide(axes, net);
    model.train_step(rows(), labels(), loss());
    expect_error("gradients of a ParallelModel are made by train_step()", [&] { net->second->weight.square().sum().backward(); });
    EXPECT_GT(model.train_step(rows(), labels(), loss()), 0);
  }
}

TEST(MeshUser, CountsGradientsOnceThatWereEditedBetweenTwoSteps) {
  on_each_mesh([](const Axes& axes) {
    Net plain = make_net();
    pass(plain, rows(), labels());
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& each : plain->parameters()) {
      if (each.grad().defined()) each.grad().mul_(0.5);
    }
    {
      const torch::AutoGradMode gradients(true);
      pass(plain, rows(), labels());
    }
    Net net = make_net();
    ParallelModel model = divide(axes, net);
    model.train_step(rows(), labels(), loss());
    for (const at::Tensor& each : model.parameters()) {
      if (each.grad().defined()) each.grad().mul_(0.5);
    }
    model.train_step(rows(), labels(), loss());
    expect_near(norm_of_gradients(model), norm_of_gradients(*plain));
  });
}

TEST(MeshUser, KeepsGradientsOfWhatIsFrozenBetweenTwoSteps) {
  on_each_mesh([](const Axes& axes) {
    Net net = make_net();
    ParallelModel model = divide(axes, net);
    model.train_step(rows(), labels(), loss());
    if (model.parameters().empty()) {
      model.train_step(rows(), labels(), loss());
      return;
    }
    const at::Tensor frozen = model.parameters().front();
    const at::Tensor before = frozen.grad().clone();
    frozen.requires_grad_(false);
    model.train_step(rows(), labels(), loss());
    EXPECT_TRUE(frozen.grad().equal(before));
  });
}

// The module's own tensors get other memory.
TEST(MeshUser, AveragesBuffersOfAModuleThatWasLoaded) {
  const Axes axes{{"data", -1}};
  const auto rows_of = [](int place) {
    torch::manual_seed(20 + place);
    return torch::randn({6, 6}, torch::kDouble);
  };
  Net net = make_net();
  std::ostringstream saved;
  torch::save(net, saved);
  ParallelModel model = divide(axes, net);
  std::istringstream file(saved.str());
  torch::load(net, file);
  at::Tensor expected = torch::zeros({8}, torch::kDouble);
  for (int place = 0; place < model.places(); ++place) {
    Net plain = make_net();
    (void)plain(rows_of(place));
    expected += plain->norm->running_mean / model.places();
  }
  model.train_step(rows_of(model.place()), labels(), loss());
  EXPECT_TRUE(net->norm->running_mean.allclose(expected, 1e-10, 1e-12)) << net->norm->running_mean << expected;
}

TEST(MeshUser, StepsTensorsOfTheModelOnly) {
  on_each_mesh([](const Axes& axes) {
    const at::Tensor scale = torch::ones({2}, torch::kDouble).requires_grad_();
    for (const bool clips : {true, false}) {
      ParallelModel model = divide(axes, make_net());
      std::vector<at::Tensor> all = model.parameters();
      if (world().rank() == world().size() - 1) all.push_back(scale);
      torch::optim::SGD sgd(all, 0.1);
      tw::LossScaler scaler;
      model.train_step(rows(), labels(), loss());
      const tw::StepOptions options{.max_norm = clips ? 1.0 : 0.0, .scaler = clips ? nullptr : &scaler};
      expect_error("a tensor of shape [2] that is not the model's", [&] { model.step(sgd, options); });
      EXPECT_TRUE(model.step(sgd));
    }
  });
}

TEST(MeshUser, RefusesRanksThatDoDifferentThings) {
  on_each_mesh([](const Axes& axes) {
    Net net = make_net();
    ParallelModel model = divide(axes, net);
    if (world().rank() == 0) model.eval();
    expect_error("have the model in different modes", [&] { model.train_step(rows(), labels(), loss()); });
    model.train();
    const auto count = [](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>&) { return double(outputs.front().size(0)); };
    expect_error("rank 0 calls train_step(), rank 1 calls evaluate()", [&] {
      if (world().rank() == 0) {
        model.train_step(rows(), labels(), loss());
      } else {
        (void)model.evaluate({rows()}, {labels()}, {count});
      }
    });
    EXPECT_GT(model.train_step(rows(), labels(), loss()), 0) << "nothing had begun";
  });
}

TEST(MeshUser, RefusesHooksThatNobodyCalls) {
  Net net = make_net();
  ParallelModel model = divide({{"shard", -1}}, net);
  model.parameters().front().register_hook([](const at::Tensor& gradient) { return gradient * 0; });
  expect_error("has a hook, which no backward pass calls", [&] { model.train_step(rows(), labels(), loss()); });
}

torch::nn::Embedding sparse_words() { return torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 6).sparse(true)); }

/// Looks up the words of a table, and compares with all of them.
struct TiedWordsImpl : torch::nn::Module {
  TiedWordsImpl() : words(register_module("words", sparse_words())), middle(register_module("middle", torch::nn::Linear(6, 6))) {}
  at::Tensor forward(const at::Tensor& x) { return torch::matmul(torch::tanh(middle(words(x))), words->weight.t()); }
  torch::nn::Embedding words;
  torch::nn::Linear middle;
};
TORCH_MODULE(TiedWords);

TEST(MeshUser, RefusesSparseGradientsWhereTheyCannotBeSummed) {
  const at::Tensor example = torch::zeros({4}, torch::kLong);
  const auto linear = [] { return torch::nn::Linear(6, 6); };
  for (const Axes& axes : {Axes{{"shard", -1}}, Axes{{"data", 2}, {"shard", 2}}, Axes{{"shard", 2}, {"stage", 2}}}) {
    const tw::Mesh mesh(world(), axes);
    SCOPED_TRACE(mesh.shape().describe());
    torch::nn::Sequential words(sparse_words(), linear(), linear());
    const std::string refusal = "'0.weight' has sparse gradients, which ranks along `shard` cannot divide";
    expect_error(refusal, [&] { (void)tw::parallelize(mesh, *words, {example}); });
    using tw::pipeline::block;
    const std::vector<tw::pipeline::BlockFactory> blocks{block(&sparse_words), block(linear), block(linear)};
    expect_error(refusal, [&] { (void)tw::parallelize(mesh, blocks, {example}); });
  }
  TiedWords tied;
  expect_error("parameter 'words.weight' has sparse gradients, but several stages use it",
               [&] { (void)tw::parallelize(tw::Mesh(world(), {{"data", 2}, {"stage", 2}}), *tied, {example}); });
}

struct ScaledImpl : torch::nn::Module {
  ScaledImpl() {
    body = register_module("body", torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 8), torch::nn::Tanh(),
                                                         torch::nn::Linear(8, 8), torch::nn::Tanh(), torch::nn::Linear(8, 3)));
    scale = register_parameter("scale", torch::full({1}, 0.5));
  }
  at::Tensor forward(const at::Tensor& x) { return body->forward(x); }
  torch::nn::Sequential body{nullptr};
  at::Tensor scale;  ///< of the loss
};
TORCH_MODULE(Scaled);

// A loss may use parameters that forward() does not, if they are the module's.
TEST(MeshUser, TrainsParametersOfTheLoss) {
  const auto make = [] {
    torch::manual_seed(5);
    Scaled net;
    net->to(torch::kDouble);
    return net;
  };
  const auto scaled = [](const Scaled& net, const at::Tensor& y, const at::Tensor& t) {
    return torch::nn::functional::cross_entropy(y, t) * torch::exp(-net->scale).sum() + net->scale.sum();
  };
  on_each_mesh([&](const Axes& axes) {
    Scaled plain = make();
    scaled(plain, plain(rows()), labels()).backward();
    Scaled net = make();
    ParallelModel model = tw::parallelize(tw::Mesh(world(), axes), *net, {rows()});
    model.train_step(rows(), labels(), [&](const at::Tensor& y, const at::Tensor& t) { return scaled(net, y, t); });
    expect_near(norm_of_gradients(model), norm_of_gradients(*plain));
  });
}

struct ReadEarlyImpl : torch::nn::Module {
  ReadEarlyImpl() {
    first = register_module("first", torch::nn::Linear(6, 8));
    second = register_module("second", torch::nn::Linear(8, 8));
    third = register_module("third", torch::nn::Linear(8, 8));
    last = register_parameter("last", torch::randn({3, 8}));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = first(x * (1 + last.detach().mean()));
    return torch::tanh(third(torch::tanh(second(y)))).matmul(last.t());
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr};
  at::Tensor last;  ///< the first stage reads it without a gradient
};
TORCH_MODULE(ReadEarly);

TEST(MeshUser, AddsToGradientsThatTheFirstStageDoesNotMake) {
  const auto make = [] {
    torch::manual_seed(5);
    ReadEarly net;
    net->to(torch::kDouble);
    return net;
  };
  on_each_mesh([&](const Axes& axes) {
    ReadEarly plain = make();
    ReadEarly net = make();
    ParallelModel model = tw::parallelize(tw::Mesh(world(), axes), *net, {rows()});
    for (int step = 0; step < 2; ++step) {
      torch::nn::functional::cross_entropy(plain(rows()), labels()).backward();
      model.train_step(rows(), labels(), loss());
    }
    expect_near(norm_of_gradients(model), norm_of_gradients(*plain));
  });
}

TEST(MeshUser, TakesModulesThatNoPointerHolds) {
  on_each_mesh([](const Axes& axes) {
    torch::manual_seed(5);
    ScaledImpl net;
    ParallelModel model = tw::parallelize(tw::Mesh(world(), axes), net, {rows().to(torch::kFloat)});
    EXPECT_GT(model.train_step(rows().to(torch::kFloat), labels(), loss()), 0);
  });
}

std::filesystem::path directory() { return std::filesystem::path(std::getenv("TEST_TMPDIR")) / "mesh_user"; }

// Its optimizer may also have tensors that this rank does not train: frozen ones, and those of other stages.
TEST(MeshUser, SavesAnOptimizerOfTheWholeModule) {
  for (const Axes& axes : {shapes[0], shapes[2], shapes[3]}) {
    Net net = make_net();
    net->third->weight.requires_grad_(false);
    ParallelModel model = divide(axes, net);
    torch::optim::AdamW adam(net->parameters(), 1e-2);
    model.train_step(rows(), labels(), loss());
    EXPECT_TRUE(model.step(adam));
    tw::CheckpointStore store(world(), directory());
    EXPECT_NO_THROW(model.save(store, 1, adam));
    store.wait();
    EXPECT_NO_THROW(model.load(store, 1, adam));
  }
}

TEST(MeshUser, SavesAModelWhoseStepHasFailed) {
  on_each_mesh([](const Axes& axes) {
    Net net = make_net();
    const auto replicas = has(axes, "data") && !has(axes, "stage") ? tw::ReplicaSync::independent : tw::ReplicaSync::every_step;
    ParallelModel model = divide(axes, net, {.replicas = replicas});
    torch::optim::AdamW adam(model.parameters(), 1e-2);
    const auto failing = [&](const at::Tensor& y, const at::Tensor& t) {
      if (model.place() == model.places() - 1) throw std::runtime_error("no memory");
      return torch::nn::functional::cross_entropy(y, t);
    };
    (void)message_of([&] { model.train_step(rows(), labels(), failing); });  // with replicas apart, some go on
    tw::CheckpointStore store(world(), directory());
    model.save(store, 1, adam);
    store.wait();
  });
}

TEST(MeshUser, LoadsACheckpointAfterAFailedStep) {
  on_each_mesh([](const Axes& axes) {
    Net net = make_net();
    ParallelModel model = divide(axes, net, {.unit_bytes = 500});
    torch::optim::AdamW adam(model.parameters(), 1e-2);
    model.train_step(rows(), labels(), loss());
    model.step(adam);
    tw::CheckpointStore store(world(), directory());
    model.save(store, 1, adam);
    store.wait();
    const double expected = model.train_step(rows(), labels(), loss());
    model.step(adam);
    const auto failing = [&](const at::Tensor& y, const at::Tensor& t) {
      if (model.place() == model.places() - 1) throw std::runtime_error("no memory");
      return torch::nn::functional::cross_entropy(y, t);
    };
    EXPECT_ANY_THROW(model.train_step(rows(), labels(), failing));
    EXPECT_NO_THROW(model.load(store, 1, adam));
    expect_near(model.train_step(rows(), labels(), loss()), expected);
  });
}

TEST(MeshUser, MeetsWithItsBuffers) {
  Net net = make_net();
  ParallelModel model = divide({{"data", -1}}, net, {.replicas = tw::ReplicaSync::independent});
  std::vector<tw::NamedTensor> tensors = model.named_parameters();
  for (const tw::NamedTensor& each : model.named_buffers()) tensors.push_back(each);
  const tw::Mesh mesh(world(), {{"data", -1}});
  tw::LocalSgd local(mesh["data"], tensors, tw::LocalSgdOptions{.period = 1, .average_buffers = true});
  torch::manual_seed(30 + world().rank());
  model.train_step(torch::randn({6, 6}, torch::kDouble), labels(), loss());
  local.step();
  const double sum = net->norm->running_mean.sum().item<double>();
  for (const double each : tw::allgather_objects(world(), sum)) EXPECT_EQ(each, sum);
}

/// Where a net with a column-parallel and a row-parallel layer drops elements.
enum class Drop : uint8_t {
  slices,        ///< between the layers, by a plain dropout
  slices_apart,  ///< likewise, by SplitDropout
  whole,         ///< before and after the layers, by a plain dropout
};

struct SplitNetImpl : torch::nn::Module {
  SplitNetImpl(const tw::Communicator& tensor, Drop where)
      : wide(register_module("wide", tw::tensor_parallel::ColumnParallelLinear(tensor, 6, 8))),
        narrow(register_module("narrow", tw::tensor_parallel::RowParallelLinear(tensor, 8, 3))),
        drop(register_module("drop", torch::nn::Dropout(0.5))),
        drop_apart(register_module("drop_apart", tw::tensor_parallel::SplitDropout(tensor, 0.5))),
        of(where) {
    to(torch::kDouble);
  }
  at::Tensor hidden(const at::Tensor& x) {
    const at::Tensor y = torch::tanh(wide(x));
    if (of == Drop::whole) return y;
    return of == Drop::slices ? drop(y) : drop_apart(y);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor begin = of == Drop::whole ? drop(x) : x;
    const at::Tensor end = narrow(recomputes ? tw::recomputed([this](const at::Tensor& h) { return hidden(h); }, begin) : hidden(begin));
    return of == Drop::whole ? drop(end) : end;
  }
  bool recomputes = false;
  tw::tensor_parallel::ColumnParallelLinear wide;
  tw::tensor_parallel::RowParallelLinear narrow;
  torch::nn::Dropout drop;
  tw::tensor_parallel::SplitDropout drop_apart;
  Drop of;
};
TORCH_MODULE(SplitNet);

SplitNet make_split(const tw::Communicator& tensor, Drop where, bool recomputes = false) {
  torch::manual_seed(5);
  SplitNet net(tensor, where);
  net->recomputes = recomputes;
  return net;
}

/// Calls `check` on meshes with and without other samples.
template <class Check>
void on_split_meshes(const Check& check) {
  const tw::Communicator pair = world().split(world().rank() / 2, world().rank());
  for (const auto& [comm, axes] : {std::pair(&pair, Axes{{"tensor", 2}}), std::pair(&world(), Axes{{"data", 2}, {"tensor", 2}})}) {
    SCOPED_TRACE(tw::MeshShape(comm->size(), axes).describe());
    EXPECT_NO_THROW(check(tw::Mesh(*comm, axes)));
    world().barrier();
  }
}

ParallelModel divide(const tw::Mesh& mesh, SplitNet net) { return tw::parallelize(mesh, *net, {rows()}, {.micro_batches = 2}); }

const std::string same_mask =
    "aten::dropout draws the same random numbers for different slices, of shapes [3, 4] and [3, 4], on ranks 0 and 1 along "
    "`tensor`: use tensor_parallel::SplitDropout";

TEST(MeshUser, RefusesOneMaskForAllSlices) {
  on_split_meshes([](const tw::Mesh& mesh) {
    for (const bool recomputes : {false, true}) {
      const tw::Mesh own(mesh.comm(), mesh.shape().axes());  // a failed step revokes its axis `tensor`
      ParallelModel model = divide(own, make_split(own["tensor"], Drop::slices, recomputes));
      expect_error(same_mask, [&] { model.train_step(rows(), labels(), loss()); });
    }
    ParallelModel model = divide(mesh, make_split(mesh["tensor"], Drop::slices));
    model.eval();
    EXPECT_GT(model.train_step(rows(), labels(), loss()), 0) << "nothing is dropped";
    model.train();
    expect_error(same_mask, [&] { model.train_step(rows(), labels(), loss()); });
  });
}

TEST(MeshUser, TakesMasksOfTheirOwnForSlicesAndOneForWholeTensors) {
  on_split_meshes([](const tw::Mesh& mesh) {
    for (const Drop where : {Drop::slices_apart, Drop::whole}) {
      for (const bool recomputes : {false, true}) {
        ParallelModel model = divide(mesh, make_split(mesh["tensor"], where, recomputes));
        for (int step = 0; step < 2; ++step) EXPECT_GT(model.train_step(rows(), labels(), loss()), 0);
        expect_error("clip_grad_norm() of a ParallelModel", [&] { torch::nn::utils::clip_grad_norm_(model.parameters(), 1.0); });
      }
    }
  });
}

// A place without rows passes the example, which may differ along `tensor`: its masks are checked with its first rows.
TEST(MeshUser, ChecksMasksOfPlacesWithRows) {
  for (const Drop where : {Drop::whole, Drop::slices}) {
    const tw::Mesh mesh(world(), {{"shard", 2}, {"tensor", 2}});
    SplitNet net = make_split(mesh["tensor"], where);
    ParallelModel model = tw::parallelize(mesh, *net, {rows() + mesh.coordinate("tensor")}, {.micro_batches = 2});
    const auto step = [&](int place) {
      const int64_t count = model.place() == place ? 6 : 0;
      torch::manual_seed(9);  // alike for examples
      return model.train_step(rows(count), labels(count), loss());
    };
    if (where == Drop::slices) {
      expect_error(same_mask, [&] { step(0); });
    } else {
      for (const int place : {0, 1}) EXPECT_GT(step(place), 0);
    }
  }
}

// Whether a stage runs its blocks, or captured operators, for which the interpreter draws.
TEST(MeshUser, RefusesOneMaskForAllSlicesOfAStage) {
  for (const bool is_captured : {false, true}) {
    for (const Drop where : {Drop::slices_apart, Drop::whole, Drop::slices}) {
      const tw::Mesh mesh(world(), {{"stage", 2}, {"tensor", 2}});
      const tw::ParallelOptions options{.micro_batches = 2, .recompute = tw::pipeline::Recompute::full};
      torch::manual_seed(5);
      const auto make_last = [] {
        torch::nn::Sequential last(torch::nn::Linear(3, 3), torch::nn::Dropout(0.5));
        last->to(torch::kDouble);
        return last;
      };
      const auto first = [&] { return SplitNet(mesh["tensor"], where); };
      const std::vector<tw::pipeline::BlockFactory> blocks{tw::pipeline::block(first), tw::pipeline::block(make_last)};
      torch::nn::Sequential whole(first(), torch::nn::Linear(3, 3), torch::nn::Dropout(0.5));
      whole->to(torch::kDouble);
      ParallelModel model = is_captured ? tw::parallelize(mesh, *whole, {rows()}, options) : tw::parallelize(mesh, blocks, {rows()}, options);
      const auto step = [&] { return model.train_step(rows(), labels(), loss()); };
      if (where == Drop::slices) {
        expect_error(same_mask, step);
      } else {
        EXPECT_GT(step(), 0) << is_captured;
      }
    }
  }
}

}  // namespace mesh_user_test
