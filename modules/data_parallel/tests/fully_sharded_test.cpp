// SPDX-License-Identifier: Apache-2.0
// A fully sharded model on n ranks = the plain one on 1 rank with all samples, after some steps, in float64. Every rank also trains the plain one.
// Tolerance: as in equivalence_test.cpp, |ours - reference| <= 1e-12 |reference| in the 2-norm.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <set>
#include <tw/data_parallel.hpp>

namespace fully_sharded_test {

using tw::testing::world;

constexpr int64_t each = 4;  // samples of one rank
constexpr int64_t steps = 5;

/// A model, made anew at each call with the same values, and its loss on some of the samples of a step.
struct Kind {
  std::string name;
  std::function<std::shared_ptr<torch::nn::Module>()> make;
  std::function<at::Tensor(torch::nn::Module&, const at::Tensor& x, int64_t step)> loss;  // x [n, 8]
};

struct TiedImpl : torch::nn::Module {
  TiedImpl() : embedding(register_module("embedding", torch::nn::Embedding(11, 6))), inner(register_module("inner", torch::nn::Linear(6, 6))) {
    weight = register_parameter("weight", embedding->weight);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor tokens = (x.abs() * 5).to(torch::kLong).remainder(11);
    return torch::log_softmax(torch::matmul(torch::tanh(inner->forward(embedding->forward(tokens))), weight.t()), -1);
  }
  torch::nn::Embedding embedding;
  torch::nn::Linear inner;
  at::Tensor weight;
};

struct BranchesImpl : torch::nn::Module {
  BranchesImpl() {
    for (int i = 0; i < 4; ++i) layers->push_back(torch::nn::Linear(8, 8));
    register_module("layers", layers);
  }
  at::Tensor forward(at::Tensor x, int64_t step) {
    for (int64_t i = 0; i < 4; ++i) {
      if (step % 3 != i) x = torch::tanh(layers->at<torch::nn::LinearImpl>(static_cast<size_t>((i + step) % 4)).forward(x));
    }
    return x;
  }
  torch::nn::ModuleList layers;
};

struct TwiceImpl : torch::nn::Module {
  TwiceImpl() : a(register_module("a", torch::nn::Linear(8, 8))), b(register_module("b", torch::nn::Linear(8, 8))) {}
  at::Tensor forward(at::Tensor x) {
    for (int i = 0; i < 3; ++i) x = torch::tanh(b->forward(torch::tanh(a->forward(x))));
    return x;
  }
  torch::nn::Linear a, b;
};

template <class Module>
auto making(Module (*make)()) {
  return [make]() -> std::shared_ptr<torch::nn::Module> {
    torch::manual_seed(5);
    auto module = make();
    module->to(torch::kDouble);
    return module.ptr();
  };
}

torch::nn::Sequential layers() {
  return torch::nn::Sequential(torch::nn::Linear(8, 13), torch::nn::LayerNorm(torch::nn::LayerNormOptions({13})), torch::nn::Tanh(),
                               torch::nn::Linear(13, 11), torch::nn::GELU(), torch::nn::Linear(11, 3));
}

struct LstmImpl : torch::nn::Module {
  LstmImpl() : lstm(register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(2, 5).num_layers(2).batch_first(true).bidirectional(true)))) {}
  at::Tensor forward(const at::Tensor& x) { return std::get<0>(lstm->forward(x.view({-1, 4, 2}))); }
  torch::nn::LSTM lstm;
};

struct ConvolutionsImpl : torch::nn::Module {
  ConvolutionsImpl()
      : first(register_module("first", torch::nn::Conv1d(1, 3, 3))),
        norm(register_module("norm", torch::nn::GroupNorm(1, 3))),
        last(register_module("last", torch::nn::Conv1d(3, 2, 3))) {}
  at::Tensor forward(const at::Tensor& x) { return last->forward(torch::relu(norm->forward(first->forward(x.unsqueeze(1))))); }
  torch::nn::Conv1d first;
  torch::nn::GroupNorm norm;
  torch::nn::Conv1d last;
};

struct AttentionImpl : torch::nn::Module {
  AttentionImpl()
      : layer(register_module("layer",
                              torch::nn::TransformerEncoderLayer(torch::nn::TransformerEncoderLayerOptions(4, 2).dim_feedforward(9).dropout(0)))) {}
  at::Tensor forward(const at::Tensor& x) { return layer->forward(x.view({-1, 2, 4}).transpose(0, 1)); }
  torch::nn::TransformerEncoderLayer layer;
};

template <class Impl>
at::Tensor square_of(torch::nn::Module& module, const at::Tensor& x, int64_t /*step*/) {
  return dynamic_cast<Impl&>(module).forward(x).square().mean();
}

template <class Impl>
Kind kind_of(const std::string& name) {
  return {name, making<torch::nn::ModuleHolder<Impl>>([] { return torch::nn::ModuleHolder<Impl>(std::make_shared<Impl>()); }), &square_of<Impl>};
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"layers", making<torch::nn::Sequential>(&layers),
       [](torch::nn::Module& module, const at::Tensor& x, int64_t) {
         return dynamic_cast<torch::nn::SequentialImpl&>(module).forward(x).square().mean();
       }},
      {"frozen", making<torch::nn::Sequential>([] {
         auto net = layers();
         net->named_parameters()["3.weight"].requires_grad_(false);
         net->named_parameters()["0.bias"].requires_grad_(false);
         return net;
       }),
       [](torch::nn::Module& module, const at::Tensor& x, int64_t) {
         return dynamic_cast<torch::nn::SequentialImpl&>(module).forward(x).square().mean();
       }},
      kind_of<TiedImpl>("tied embedding"),
      {"branches",
       making<torch::nn::ModuleHolder<BranchesImpl>>([] { return torch::nn::ModuleHolder<BranchesImpl>(std::make_shared<BranchesImpl>()); }),
       [](torch::nn::Module& module, const at::Tensor& x, int64_t step) {
         return dynamic_cast<BranchesImpl&>(module).forward(x, step).square().mean();
       }},
      kind_of<TwiceImpl>("used twice"),
      kind_of<LstmImpl>("lstm"),
      kind_of<ConvolutionsImpl>("convolutions"),
      kind_of<AttentionImpl>("attention"),
  };
  return all;
}

at::Tensor samples_of(int64_t step) {
  torch::manual_seed(static_cast<uint64_t>(1000 + step));
  return torch::randn({4 * each, 8}, torch::kDouble);
}
at::Tensor all_samples(int64_t step) { return samples_of(step).narrow(0, 0, world().size() * each); }
at::Tensor my_samples(int64_t step) { return samples_of(step).narrow(0, world().rank() * each, each); }

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name, const std::vector<at::Tensor>& parameters) {
  using namespace torch::optim;
  if (name == "SGD") return std::make_unique<SGD>(parameters, SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(1e-3));
  if (name == "Adam") return std::make_unique<Adam>(parameters, AdamOptions(1e-3).amsgrad(true));
  if (name == "AdamW") return std::make_unique<AdamW>(parameters, AdamWOptions(1e-3).weight_decay(0.1));
  if (name == "RMSprop") return std::make_unique<RMSprop>(parameters, RMSpropOptions(1e-3).momentum(0.5).centered(true));
  return std::make_unique<Adagrad>(parameters, AdagradOptions(1e-2));
}

/// LibTorch lists tied parameters twice, and its optimizers update them twice.
std::vector<at::Tensor> each_once(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> once;
  for (const at::Tensor& parameter : parameters) {
    if (std::none_of(once.begin(), once.end(), [&](const at::Tensor& other) { return other.is_same(parameter); })) once.push_back(parameter);
  }
  return once;
}

/// The whole values of a sharded parameter, by an operator.
at::Tensor value_of(const at::Tensor& parameter) {
  const at::NoGradGuard no_grad;
  return parameter.clone();
}

void expect_equal(const torch::nn::Module& ours, const torch::nn::Module& reference, const std::string& what) {
  const auto expected = reference.named_parameters();
  for (const auto& parameter : ours.named_parameters()) {
    const at::Tensor other = expected[parameter.key()].detach();
    EXPECT_LE((value_of(parameter.value()) - other).norm().item<double>(), 1e-12 * other.norm().item<double>()) << what << ' ' << parameter.key();
  }
}

std::vector<tw::FullyShardedOptions> modes() {
  std::vector<tw::FullyShardedOptions> all;
  for (const int64_t unit_bytes : {1, 700, 1 << 20}) {
    for (const int ahead : {0, 2}) all.push_back({.reduction = tw::Reduction::mean, .unit_bytes = unit_bytes, .gather_ahead = ahead});
  }
  if (tw::find_topology(world()).nodes == 1) all.push_back({.reduction = tw::Reduction::mean, .unit_bytes = 700, .one_copy_per_node = true});
  return all;
}

void expect_training_equal(const Kind& kind, const std::string& optimizer, const tw::FullyShardedOptions& options, int64_t passes = 1) {
  const auto reference = kind.make();
  const auto reference_optimizer = make_optimizer(optimizer, each_once(reference->parameters()));
  const auto net = kind.make();
  tw::FullySharded sharded(world(), *net, options);
  const auto ours = make_optimizer(optimizer, sharded.slices());
  const std::string what = tw::concat(kind.name, ", ", optimizer, ", units of ", options.unit_bytes, ", ahead ", options.gather_ahead,
                                      options.one_copy_per_node ? ", one copy" : "");
  for (int64_t step = 0; step < steps; ++step) {
    reference_optimizer->zero_grad();
    ours->zero_grad();
    for (int64_t pass = 0; pass < passes; ++pass) {
      kind.loss(*reference, all_samples(passes * step + pass), step).backward();
      kind.loss(*net, my_samples(passes * step + pass), step).backward();
    }
    reference_optimizer->step();
    ours->step();
    const at::NoGradGuard no_grad;  // an evaluation between steps
    EXPECT_NEAR(kind.loss(*net, all_samples(step), step).item<double>(), kind.loss(*reference, all_samples(step), step).item<double>(), 1e-10)
        << what;
  }
  expect_equal(*net, *reference, what);
}

// SGD: where a gradient is nothing but rounding, as that of the keys' bias, Adam divides rounding by rounding.
TEST(FullySharded, EqualsTheWholeModel) {
  for (const Kind& kind : kinds()) {
    for (const tw::FullyShardedOptions& options : modes()) expect_training_equal(kind, "SGD", options);
  }
}

TEST(FullySharded, TakesEveryElementwiseOptimizer) {
  for (const std::string optimizer : {"SGD", "Adam", "AdamW", "RMSprop", "Adagrad"}) {
    for (const tw::FullyShardedOptions& options : modes()) expect_training_equal(kinds().front(), optimizer, options);
  }
}

TEST(FullySharded, AccumulatesInSlices) {
  for (const tw::FullyShardedOptions& options : modes()) expect_training_equal(kinds().front(), "Adam", options, 3);
}

/// Two layers with their forward pass by hand, and room for what may go wrong in between.
struct Fixture {
  explicit Fixture(int64_t unit_bytes = 1)
      : net(kinds().front().make()),
        sharded(world(), *net, {.reduction = tw::Reduction::mean, .unit_bytes = unit_bytes}),
        optimizer(sharded.slices(), 0.1) {}
  at::Tensor loss(int64_t step = 0) { return kinds().front().loss(*net, my_samples(step), step); }
  at::Tensor parameter(const std::string& name) const { return net->named_parameters()[name]; }

  std::shared_ptr<torch::nn::Module> net;
  tw::FullySharded sharded;
  torch::optim::SGD optimizer;
};

/// What `call` throws; empty: nothing.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

TEST(FullySharded, NamesAParameterWhosePointerIsTaken) {
  Fixture f;
  f.loss().backward();
  EXPECT_NE(error_of([&] { f.parameter("3.weight").data_ptr(); }).find("3.weight"), std::string::npos);
  f.optimizer.step();
  f.loss().backward();
}

TEST(FullySharded, NamesAParameterThatWasChangedInPlace) {
  for (const tw::FullyShardedOptions& options : modes()) {
    const auto net = kinds().front().make();
    tw::FullySharded sharded(world(), *net, options);
    {
      const at::NoGradGuard no_grad;
      net->named_parameters()["0.weight"].mul_(2);
    }
    const std::string error = error_of([&] { kinds().front().loss(*net, my_samples(0), 0).backward(); });
    EXPECT_NE(error.find("0.weight was changed in place"), std::string::npos) << error;
  }
}

TEST(FullySharded, NamesRanksWhoseOptionsDiffer) {
  if (world().size() == 1) return;
  const auto net = kinds().front().make();
  const int64_t unit_bytes = world().rank() == 1 ? 100 : 200;
  const std::string error = error_of([&] { tw::FullySharded(world(), *net, {.reduction = tw::Reduction::mean, .unit_bytes = unit_bytes}); });
  EXPECT_NE(error.find("unit_bytes"), std::string::npos) << error;
}

TEST(FullySharded, RefusesSparseGradientsAndParametersThatComeLater) {
  torch::nn::Sequential sparse(torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 3).sparse(true)), torch::nn::Linear(3, 2));
  const std::string error = error_of([&] { tw::FullySharded(world(), *sparse, {.reduction = tw::Reduction::mean}); });
  EXPECT_NE(error.find("sparse gradients cannot be sharded: 0.weight"), std::string::npos) << error;

  auto net = layers();
  tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean});
  net->register_parameter("late", torch::ones({2}));
  const std::string later = error_of([&] { net->forward(torch::ones({2, 8})).sum().backward(); });
  EXPECT_NE(later.find("late is a parameter of the module"), std::string::npos) << later;
}

TEST(FullySharded, GoesOnAfterAnExceptionInAPass) {
  Fixture f;
  const auto reference = kinds().front().make();
  torch::optim::SGD optimizer(reference->parameters(), 0.1);
  for (int64_t step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    kinds().front().loss(*reference, all_samples(step), step).backward();
    optimizer.step();
    f.optimizer.zero_grad();
    EXPECT_THROW(kinds().front().loss(*f.net, torch::ones({2, 9}, torch::kDouble), step), c10::Error);
    EXPECT_THROW(dynamic_cast<torch::nn::SequentialImpl&>(*f.net)[3]->as<torch::nn::Linear>()->forward(torch::ones({2, 9}, torch::kDouble)),
                 c10::Error);
    f.loss(step).backward();
    f.optimizer.step();
  }
  expect_equal(*f.net, *reference, "after exceptions");
}

// Ranks that read their slices by themselves gather nothing anew; a rank that reads alone must not wait for others.
TEST(FullySharded, SlicesMayBeReadOnOneRank) {
  Fixture f;
  f.loss().backward();
  f.optimizer.step();
  const at::NoGradGuard no_grad;
  f.loss();
  const int64_t before = f.sharded.gatherings();
  if (world().rank() == 0) {
    for (const at::Tensor& slice : f.sharded.slices()) slice.norm();
  }
  f.loss();
  EXPECT_LE(f.sharded.gatherings() - before, 8);
}

TEST(FullySharded, ValuesOutliveWhatShardedThem) {
  const auto net = kinds().front().make();
  std::vector<at::Tensor> slices;
  {
    tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean});
    slices = sharded.slices();
  }
  for (const at::Tensor& slice : slices) slice.add_(1);
  const std::string error = error_of([&] { net->named_parameters()["0.weight"].clone(); });
  EXPECT_NE(error.find("what gathered it is gone"), std::string::npos) << error;
}

// The forward and the backward pass of four units, in order: the last one of the first is the first one of the second.
TEST(FullySharded, GathersEachUnitTwiceAStepAndAheadOncePassesAreKnown) {
  for (const int ahead : {0, 1, 2}) {
    torch::nn::Sequential net;
    for (int i = 0; i < 4; ++i) net->push_back(torch::nn::Linear(torch::nn::LinearOptions(8, 8).bias(false)));
    net->to(torch::kDouble);
    tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean, .unit_bytes = 1, .gather_ahead = ahead});
    for (int step = 0; step < 3; ++step) {
      const int64_t before = sharded.gatherings();
      const int64_t late = sharded.late_gatherings();
      net->forward(my_samples(step)).sum().backward();
      // The weights of the first layer are not taken in the backward pass, which needs no gradient of the input; the one before the last is kept for
      // it, and the second one if it is looked for early enough.
      const bool known = step > 0;
      const int64_t gathered = known && ahead == 2 ? 4 : 5;
      EXPECT_EQ(sharded.gatherings() - before, gathered) << ahead << ' ' << step;
      EXPECT_EQ(sharded.late_gatherings() - late, known && ahead > 0 ? 1 : gathered) << ahead << ' ' << step;
    }
  }
}

// Two units of one size, which their memory does not tell apart.
TEST(FullySharded, NamesRanksThatGoOtherWays) {
  if (world().size() == 1) return;
  torch::nn::Linear a(8, 8);
  torch::nn::Linear b(8, 8);
  const std::vector<tw::NamedTensor> parameters{{"a", a->weight}, {"b", b->weight}};
  tw::FullySharded sharded(world(), parameters, {.reduction = tw::Reduction::mean, .unit_bytes = 1});
  const at::Tensor x = torch::ones({2, 8});
  const bool swaps = world().rank() == 1;
  const std::string error = error_of([&] { (swaps ? a->forward(b->forward(x)) : b->forward(a->forward(x))).sum().backward(); });
  EXPECT_NE(error.find("different orders"), std::string::npos) << error;
  EXPECT_NE(error.find("rank 0: a, b"), std::string::npos) << error;
  EXPECT_NE(error.find("rank 1: b, a"), std::string::npos) << error;
}

TEST(FullySharded, ReplicatesOverAnotherAxis) {
  if (world().size() != 4) return;
  const tw::Communicator shards = world().split(world().rank() / 2, 0);
  const tw::Communicator replicas = world().split(world().rank() % 2, 0);
  for (const Kind& kind : kinds()) {
    for (const tw::Reduction reduction : {tw::Reduction::mean, tw::Reduction::sum}) {
      const auto reference = kind.make();
      torch::optim::SGD reference_optimizer(each_once(reference->parameters()), 0.1);
      const auto net = kind.make();
      tw::FullySharded sharded(shards, *net, {.reduction = reduction, .unit_bytes = 300, .check_finite = true}, {.replicas = &replicas});
      torch::optim::SGD optimizer(sharded.slices(), 0.1);
      for (int64_t step = 0; step < steps; ++step) {
        reference_optimizer.zero_grad();
        optimizer.zero_grad();
        kind.loss(*reference, all_samples(step), step).backward();
        const at::Tensor loss = kind.loss(*net, my_samples(step), step);
        (reduction == tw::Reduction::mean ? loss : loss / 4).backward();
        EXPECT_TRUE(sharded.gradients_finite());
        reference_optimizer.step();
        optimizer.step();
      }
      expect_equal(*net, *reference, kind.name);
    }
  }
}

TEST(FullySharded, HearsOfGradientsThatAreNotFiniteOnAnotherAxis) {
  if (world().size() != 4) return;
  const tw::Communicator shards = world().split(world().rank() / 2, 0);
  const tw::Communicator replicas = world().split(world().rank() % 2, 0);
  const auto net = kinds().front().make();
  tw::FullySharded sharded(shards, *net, {.reduction = tw::Reduction::mean, .check_finite = true}, {.replicas = &replicas});
  const double factor = world().rank() == 3 ? std::numeric_limits<double>::infinity() : 1.0;
  (kinds().front().loss(*net, my_samples(0), 0) * factor).backward();
  EXPECT_FALSE(sharded.gradients_finite());
}

// By hand on one process: masters, their rounded copies, and gradients of these. The same samples on every rank: each has 1/P of its gradient,
// rounded, and halves are summed in float32.
TEST(FullySharded, GathersInHalfPrecision) {
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    torch::manual_seed(3);
    auto net = layers();
    torch::manual_seed(3);
    auto reference = layers();
    std::vector<at::Tensor> masters;
    for (const at::Tensor& parameter : reference->parameters()) masters.push_back(parameter.detach().clone());
    reference->to(dtype);
    torch::optim::SGD reference_optimizer(masters, 0.05);
    tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean, .unit_bytes = 300, .compute_dtype = dtype});
    torch::optim::SGD optimizer(sharded.slices(), 0.05);
    for (const at::Tensor& slice : sharded.slices()) EXPECT_EQ(slice.scalar_type(), torch::kFloat);
    for (int64_t step = 0; step < 4; ++step) {
      const at::Tensor x = samples_of(step).narrow(0, 0, each).to(dtype);
      optimizer.zero_grad();
      reference->zero_grad();
      net->forward(x).square().mean().backward();
      reference->forward(x).square().mean().backward();
      optimizer.step();
      const at::NoGradGuard no_grad;
      const auto parameters = reference->parameters();
      for (size_t i = 0; i < masters.size(); ++i) {
        const at::Tensor part = parameters[i].grad() * (1.0 / world().size());
        masters[i].mutable_grad() = (part.to(torch::kFloat) * world().size()).to(dtype).to(torch::kFloat);
      }
      reference_optimizer.step();
      for (size_t i = 0; i < masters.size(); ++i) {
        const at::Tensor ours = net->parameters()[i];
        EXPECT_EQ(ours.scalar_type(), dtype);
        parameters[i].copy_(masters[i]);
        EXPECT_TRUE(value_of(ours).equal(parameters[i])) << step << ' ' << i;
      }
    }
  }
}

TEST(FullySharded, MakesUnitsOfSubmodules) {
  auto net = layers();
  net->to(torch::kDouble);
  tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean, .units = {"3", "0"}});
  std::vector<std::vector<std::string>> units;
  for (const tw::Bucket& bucket : sharded.parallel().plan().buckets) {
    auto& names = units.emplace_back();
    for (const int64_t id : bucket.gradients) names.push_back(sharded.parallel().parameters()[static_cast<size_t>(id)].name);
  }
  const std::vector<std::vector<std::string>> expected{{"3.bias", "3.weight"}, {"0.bias", "0.weight"}, {"5.bias", "5.weight", "1.bias", "1.weight"}};
  EXPECT_EQ(std::set(units.begin(), units.end()), std::set(expected.begin(), expected.end()));
  net->forward(my_samples(0)).sum().backward();
  const auto again = layers();
  const std::string error = error_of([&] { tw::FullySharded(world(), *again, {.reduction = tw::Reduction::mean, .units = {"0", "7"}}); });
  EXPECT_NE(error.find("there is no submodule 7"), std::string::npos) << error;
}

/// A layer that is large enough to be made without memory.
torch::nn::Sequential large() {
  torch::nn::Sequential net(torch::nn::Embedding(300, 256), torch::nn::Linear(256, 300), torch::nn::Linear(300, 2));
  const at::NoGradGuard no_grad;
  net->named_parameters()["1.weight"].mul_(0.5);
  return net;
}

TEST(FullySharded, BuildsModelsWithoutMemory) {
  tw::InitialValues initial(7);
  auto net = initial.record(&large);
  EXPECT_TRUE(net->named_parameters()["0.weight"].is_meta());
  EXPECT_FALSE(net->named_parameters()["2.weight"].is_meta());
  std::map<std::string, at::Tensor> whole;
  for (const auto& [name, bound] : {std::pair("0.weight", 5.0), std::pair("1.weight", 0.5 / 16)}) {
    const at::Tensor parameter = net->named_parameters()[name];
    whole[name] = torch::empty({parameter.numel()});
    initial.fill(whole[name], parameter, 0, name);
    EXPECT_LE(whole[name].abs().max().item<double>(), bound);
    EXPECT_GT(std::get<0>(at::_unique(whole[name])).numel(), parameter.numel() / 2) << "blocks differ";
    const at::Tensor part = torch::empty({9000});
    initial.fill(part, parameter, 5001, name);
    EXPECT_TRUE(part.equal(whole[name].narrow(0, 5001, 9000))) << "another part is the same";
  }
  // uniform(-1/16, 1/16) / 2 has the standard deviation 1/32 / sqrt(3); of 76,800 of them it is known to 0.3 %
  EXPECT_NEAR(whole["1.weight"].std().item<double>(), 1.0 / 32 / std::sqrt(3.0), 2e-4);
  tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean, .unit_bytes = 1 << 18}, {.initial = &initial});
  for (const auto& [name, values] : whole) EXPECT_TRUE(value_of(net->named_parameters()[name]).flatten().equal(values)) << name;
  torch::optim::SGD optimizer(sharded.slices(), 0.1);
  double first = 0;
  double last = 0;
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = net->forward(torch::arange(16)).square().mean();
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, first);
}

TEST(FullySharded, NamesWhatCannotBeBuiltInParts) {
  const auto error = [](const std::function<at::Tensor()>& make) {
    tw::InitialValues initial;
    const at::Tensor weight = initial.record([&] { return make().requires_grad_(); });
    return error_of([&] { tw::FullySharded(world(), {{"weight", weight}}, {.reduction = tw::Reduction::mean}, {.initial = &initial}); });
  };
  EXPECT_EQ(error([] { return torch::randn({512, 256}); }), "");
  EXPECT_NE(error([] {
              const at::Tensor weight = torch::empty({512, 256});
              torch::nn::init::orthogonal_(weight);
              return weight;
            }).find("weight is filled by"),
            std::string::npos);
  tw::InitialValues initial;
  auto with_buffer = initial.record([] {
    torch::nn::Sequential net(torch::nn::Linear(2, 2));
    net->register_buffer("mask", torch::full({512, 256}, 3.0));
    return net;
  });
  tw::FullySharded sharded(world(), *with_buffer, {.reduction = tw::Reduction::mean}, {.initial = &initial});
  EXPECT_TRUE(with_buffer->named_buffers()["mask"].equal(torch::full({512, 256}, 3.0)));
  EXPECT_NE(error([] { return torch::randn({512, 256}).matmul(torch::randn({256, 256})); }).find("computed from other tensors"), std::string::npos);
  const at::Tensor lost = torch::empty({512, 256}, torch::device(torch::kMeta)).requires_grad_();
  EXPECT_NE(error_of([&] { tw::FullySharded(world(), {{"lost", lost}}, {.reduction = tw::Reduction::mean}); }).find("lost has no memory"),
            std::string::npos);
}

TEST(FullySharded, LeavesBuffersWhole) {
  torch::nn::Sequential net(torch::nn::Linear(8, 8), torch::nn::BatchNorm1d(8), torch::nn::Linear(8, 2));
  tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean, .unit_bytes = 1});
  net->forward(my_samples(0).to(torch::kFloat)).sum().backward();
  EXPECT_NE(net->named_buffers()["1.running_mean"].data_ptr(), nullptr);
  for (const tw::NamedShard& shard : sharded.shards())
    EXPECT_NE(shard.name.find("weight") == std::string::npos, shard.name.find("bias") == std::string::npos);
}

}  // namespace fully_sharded_test
