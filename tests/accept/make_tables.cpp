// SPDX-License-Identifier: Apache-2.0
// Trains a network in every configuration of five finite spaces, three times each, and writes the mean losses to tests/accept/tables, the objectives
// of accept_tables. A training takes a twentieth of a second to one second, and all tables together about an hour on two cores.
// Run: OMP_NUM_THREADS=1 accept_make_tables /usr/share/datasets/fashion-mnist tests/accept/tables [NAME ...]
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/pooling.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <first_samples.hpp>
#include <fstream>
#include <functional>
#include <numbers>
#include <sstream>
#include <string>
#include <tw/base/random.hpp>
#include <tw/data/adding_problem.hpp>
#include <tw/data/image_dataset.hpp>
#include <tw/evolution/configuration.hpp>
#include <vector>

#include "table.hpp"

namespace {

namespace nn = torch::nn;
using at::Tensor;
using tw::search::Configuration;

struct Samples {
  tw::Batch train;
  tw::Batch test;
};

struct Trainee {
  std::function<Tensor(const Tensor&)> forward;
  std::vector<Tensor> parameters;
  std::function<void(bool)> set_training;
};

template <typename Module>
Trainee trainee_of(Module module) {
  return {.forward = [module](const Tensor& x) mutable { return module->forward(x); },
          .parameters = module->parameters(),
          .set_training = [module](bool on) mutable { module->train(on); }};
}

/// Settings of a training other than "lr", "optimizer", "momentum" and "beta", which all tables have.
struct Recipe {
  int64_t batch = 32;
  int64_t epochs = 1;
  double weight_decay = 0;
  double clip = 0;                                 // 0: no clipping
  std::function<double(double)> factor = nullptr;  // of the learning rate, by the completed share of the steps
  Tensor (*loss)(const Tensor&, const Tensor&) = nullptr;
};

Tensor cross_entropy(const Tensor& logits, const Tensor& targets) { return at::cross_entropy_loss(logits, targets); }
Tensor squared_error(const Tensor& outputs, const Tensor& targets) { return at::mse_loss(outputs, targets); }

/// Whether the table has such a parameter, and the configuration a value for it.
bool has(const Configuration& c, const char* name) {
  const auto& parameters = c.space().parameters();
  return std::ranges::find(parameters, name, &tw::search::Parameter::name) != parameters.end() && c.has(name);
}

/// The optimizer; Adam unless the configuration names another one.
std::unique_ptr<torch::optim::Optimizer> optimizer_of(const Configuration& c, const Trainee& trainee, double weight_decay) {
  const double lr = c.real("lr");
  const std::string name = has(c, "optimizer") ? c.text("optimizer") : "adam";
  if (name == "sgd") {
    return std::make_unique<torch::optim::SGD>(trainee.parameters,
                                               torch::optim::SGDOptions(lr).momentum(c.real("momentum")).weight_decay(weight_decay));
  }
  if (name == "rmsprop") {
    return std::make_unique<torch::optim::RMSprop>(trainee.parameters, torch::optim::RMSpropOptions(lr).weight_decay(weight_decay));
  }
  const double beta = has(c, "beta") ? c.real("beta") : 0.9;
  return std::make_unique<torch::optim::Adam>(trainee.parameters, torch::optim::AdamOptions(lr).betas({beta, 0.999}).weight_decay(weight_decay));
}

/// The test loss after training.
double train(const Trainee& trainee, const Configuration& c, const Samples& samples, const Recipe& recipe) {
  const auto optimizer = optimizer_of(c, trainee, recipe.weight_decay);
  const double lr = c.real("lr");
  const int64_t rows = samples.train.size();
  const int64_t steps = recipe.epochs * (rows / recipe.batch);
  trainee.set_training(true);
  Tensor order;
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t in_epoch = step % (rows / recipe.batch);
    if (in_epoch == 0) order = at::tensor(tw::random_permutation(rows, 1, static_cast<uint64_t>(step)));
    if (recipe.factor) {
      for (auto& group : optimizer->param_groups()) {
        group.options().set_lr(lr * recipe.factor(static_cast<double>(step) / static_cast<double>(steps)));
      }
    }
    const Tensor chosen = order.narrow(0, in_epoch * recipe.batch, recipe.batch);
    optimizer->zero_grad();
    recipe.loss(trainee.forward(samples.train.inputs.index_select(0, chosen)), samples.train.targets.index_select(0, chosen)).backward();
    if (recipe.clip > 0) nn::utils::clip_grad_norm_(trainee.parameters, recipe.clip);
    optimizer->step();
  }
  trainee.set_training(false);
  const torch::NoGradGuard no_gradients;
  return recipe.loss(trainee.forward(samples.test.inputs), samples.test.targets).item<double>();
}

void push_activation(nn::Sequential& net, const std::string& name) {
  if (name == "relu") net->push_back(nn::ReLU());
  if (name == "tanh") net->push_back(nn::Tanh());
  if (name == "sigmoid") net->push_back(nn::Sigmoid());
}

Samples fashion(const char* data, int64_t train_samples) {
  return {tw::testing::first_samples(tw::load_mnist(data, tw::Split::train), train_samples),
          tw::testing::first_samples(tw::load_mnist(data, tw::Split::test), 1000)};
}

/// Fashion-MNIST averaged over 2 x 2 pixels, [n, 196].
Samples small_fashion(const char* data, int64_t train_samples) {
  Samples samples = fashion(data, train_samples);
  for (tw::Batch* batch : {&samples.train, &samples.test}) batch->inputs = at::avg_pool2d(batch->inputs, 2).flatten(1).contiguous();
  return samples;
}

constexpr uint64_t seeds = 3;  // networks per configuration, over which the loss is averaged
constexpr int64_t inputs = 196;
constexpr int64_t classes = 10;

double mlp(const Configuration& c, const Samples& samples) {
  nn::Sequential net;
  int64_t width = inputs;
  for (int64_t layer = 0; layer < c.integer("layers"); ++layer) {
    net->push_back(nn::Linear(width, c.integer("width")));
    push_activation(net, c.text("activation"));
    width = c.integer("width");
  }
  net->push_back(nn::Linear(width, classes));
  return train(trainee_of(net), c, samples, {.epochs = 2, .loss = cross_entropy});
}

double lenet(const Configuration& c, const Samples& samples) {
  const int64_t width = c.integer("width");
  nn::Sequential net(nn::Conv2d(1, width, 5));
  push_activation(net, c.text("activation"));
  net->push_back(nn::MaxPool2d(2));
  net->push_back(nn::Conv2d(width, 2 * width, 5));
  push_activation(net, c.text("activation"));
  net->push_back(nn::MaxPool2d(2));
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(2 * width * 16, 32));
  push_activation(net, c.text("activation"));
  net->push_back(nn::Linear(32, classes));
  return train(trainee_of(net), c, samples, {.batch = c.integer("batch"), .loss = cross_entropy});
}

class RecurrentImpl : public nn::Module {
 public:
  explicit RecurrentImpl(int64_t hidden)
      : gru_(register_module("gru", nn::GRU(nn::GRUOptions(2, hidden).batch_first(true)))), out_(register_module("out", nn::Linear(hidden, 1))) {}
  Tensor forward(const Tensor& x) { return out_(std::get<0>(gru_->forward(x)).select(1, -1)); }

 private:
  nn::GRU gru_;
  nn::Linear out_;
};
TORCH_MODULE(Recurrent);

double gru(const Configuration& c, const Samples& samples) {
  const double clip = c.has("threshold") ? c.real("threshold") : 0;
  return train(trainee_of(Recurrent(c.integer("hidden"))), c, samples,
               {.batch = c.integer("batch"), .epochs = 2, .clip = clip, .loss = squared_error});
}

double regularised(const Configuration& c, const Samples& samples) {
  nn::Sequential net;
  std::vector<int64_t> widths{inputs, c.integer("width1")};
  if (c.has("width2")) widths.push_back(c.integer("width2"));
  for (size_t layer = 0; layer + 1 < widths.size(); ++layer) {
    net->push_back(nn::Linear(widths[layer], widths[layer + 1]));
    if (c.text("normalization") == "batch") net->push_back(nn::BatchNorm1d(widths[layer + 1]));
    if (c.text("normalization") == "layer") net->push_back(nn::LayerNorm(nn::LayerNormOptions({widths[layer + 1]})));
    net->push_back(nn::ReLU());
    if (c.has("dropout")) net->push_back(nn::Dropout(c.real("dropout")));
  }
  net->push_back(nn::Linear(widths.back(), classes));
  const double weight_decay = c.has("weight_decay") ? c.real("weight_decay") : 0;
  return train(trainee_of(net), c, samples, {.epochs = 6, .weight_decay = weight_decay, .loss = cross_entropy});
}

class ResidualImpl : public nn::Module {
 public:
  ResidualImpl(int64_t depth, bool residual, int64_t width = 32) : residual_(residual) {
    for (int64_t i = 0; i < depth; ++i) layers_.push_back(register_module("layer" + std::to_string(i), nn::Linear(width, width)));
  }
  Tensor forward(const Tensor& x) {
    Tensor y = in_(x).relu();
    for (auto& layer : layers_) y = residual_ ? y + layer(y).relu() : layer(y).relu();
    return out_(y);
  }

 private:
  bool residual_;
  nn::Linear in_{register_module("in", nn::Linear(inputs, 32))};
  std::vector<nn::Linear> layers_;
  nn::Linear out_{register_module("out", nn::Linear(32, classes))};
};
TORCH_MODULE(Residual);

double schedule(const Configuration& c, const Samples& samples) {
  const std::string name = c.text("schedule");
  const double drop = c.has("factor") ? c.real("factor") : 1;
  const double warmup = c.has("warmup") ? c.real("warmup") : 0;
  const auto factor = [=](double done) {
    if (name == "step") return done < 0.5 ? 1 : drop;
    if (name == "cosine") return done < warmup ? done / warmup : (1 + std::cos(std::numbers::pi * (done - warmup) / (1 - warmup))) / 2;
    return 1.0;
  };
  return train(trainee_of(Residual(c.integer("depth"), c.text("residual") == "yes")), c, samples,
               {.epochs = 2, .factor = factor, .loss = cross_entropy});
}

struct Source {
  const char* name;
  const char* parameters;
  Samples (*samples)(const char* data);
  double (*loss)(const Configuration&, const Samples&);
};

const Source sources[] = {
    {"mlp",
     "lr log 0.0003 0.001 0.003 0.01 0.03 0.1 0.3 1\nlayers integer 1 2 3\nwidth ordinal 8 32 128\nactivation categorical relu tanh sigmoid\n"
     "optimizer categorical sgd adam rmsprop\nmomentum ordinal 0 0.5 0.9 when optimizer sgd\nbeta ordinal 0.5 0.9 when optimizer adam\n",
     [](const char* data) { return small_fashion(data, 1024); }, mlp},
    {"lenet",
     "lr log 0.0003 0.001 0.003 0.01 0.03 0.1 0.3\nbatch ordinal 8 16 32 64\nwidth integer 2 3 4 5 6\nactivation categorical relu tanh\n"
     "optimizer categorical sgd adam\nmomentum ordinal 0 0.5 0.9 when optimizer sgd\n",
     [](const char* data) { return fashion(data, 512); }, lenet},
    {"gru",
     "lr log 0.001 0.003 0.01 0.03 0.1 0.3\nhidden ordinal 4 8 16\nbatch ordinal 16 64\noptimizer categorical sgd adam rmsprop\n"
     "momentum ordinal 0 0.5 0.9 when optimizer sgd\nbeta ordinal 0 0.9 when optimizer adam\nclip categorical no yes\n"
     "threshold ordinal 0.1 1 when clip yes\n",
     [](const char*) {
       const auto samples = [](int64_t n, uint64_t seed) { return tw::testing::first_samples(tw::make_adding_problem(n, 8, seed), n); };
       return Samples{samples(1536, 1), samples(500, 2)};
     },
     gru},
    {"regularised",
     "lr log 0.0003 0.001 0.003 0.01 0.03 0.1\nlayers categorical one two\nwidth1 ordinal 16 64 128\nwidth2 ordinal 16 64 when layers two\n"
     "normalization categorical none batch layer\nregularisation categorical none dropout decay\n"
     "dropout ordinal 0.1 0.3 0.5 when regularisation dropout\nweight_decay ordinal 0.0001 0.001 0.01 when regularisation decay\n",
     [](const char* data) { return small_fashion(data, 256); }, regularised},
    {"schedule",
     "lr log 0.0003 0.001 0.003 0.01 0.03 0.1\ndepth integer 0 1 2 3 4 5 6\nresidual categorical no yes\nschedule categorical constant step cosine\n"
     "factor ordinal 0.1 0.3 when schedule step\nwarmup ordinal 0 0.1 0.3 when schedule cosine\n",
     [](const char* data) { return small_fashion(data, 1024); }, schedule},
};

void make(const Source& source, const char* data, const std::string& folder) {
  std::istringstream parameters(source.parameters);
  const tw::testing::Table table(parameters);
  const Samples samples = source.samples(data);
  std::ofstream file(folder + '/' + source.name + ".txt");
  file << source.parameters << '\n';
  table.for_each([&](const std::vector<double>& values, const std::vector<int>& levels) {
    double sum = 0;
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      torch::manual_seed(seed);
      sum += source.loss(Configuration(table.space(), values), samples);
    }
    for (const int level : levels) file << (level < 0 ? "-" : std::to_string(level)) << ' ';
    char loss[32];
    std::snprintf(loss, sizeof loss, "%.4f", sum / seeds);
    file << (std::isnan(sum) ? "nan" : loss) << '\n';
  });
  if (!file.flush()) std::fprintf(stderr, "%s: not written\n", source.name);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: accept_make_tables DATA FOLDER [NAME ...]\n");
    return 2;
  }
  const std::vector<std::string> wanted(argv + 3, argv + argc);
  for (const Source& source : sources) {
    if (wanted.empty() || std::ranges::find(wanted, source.name) != wanted.end()) make(source, argv[1], argv[2]);
  }
  return 0;
}
