// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "train_config.hpp"

#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <iomanip>
#include <iostream>
#include <tw/base/concat.hpp>
#include <tw/base/terminal.hpp>
#include <tw/comm/threads.hpp>
#include <tw/models/lenet.hpp>
#include <tw/models/mlp.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/mpi/topology.hpp>
#include <tw/train/console.hpp>
#include <tw/train/fit.hpp>
#include <tw/train/metrics_log.hpp>

namespace tw::tool {
namespace {

struct TrainArguments {
  std::string config;
  std::vector<std::string> settings;
  std::string data;
};

template <class Holder>
train::Model model_of(Holder holder) {
  return {holder.ptr(), [holder](const at::Tensor& inputs) mutable { return holder->forward(inputs); }};
}

train::Model make_model(const ModelOptions& options, const ImageDataset& dataset) {
  if (options.name == "lenet") return model_of(models::LeNet(dataset.classes()));
  std::vector<int64_t> widths{dataset.height() * dataset.width()};
  widths.insert(widths.end(), static_cast<size_t>(options.hidden_layers), options.width);
  widths.push_back(dataset.classes());
  return model_of(models::Mlp(widths));
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerOptions& options, const torch::nn::Module& module) {
  if (options.name == "adam") {
    return std::make_unique<torch::optim::Adam>(module.parameters(), torch::optim::AdamOptions(options.lr).weight_decay(options.weight_decay));
  }
  return std::make_unique<torch::optim::SGD>(module.parameters(),
                                             torch::optim::SGDOptions(options.lr).momentum(options.momentum).weight_decay(options.weight_decay));
}

// Each value in force, and where it came from.
void print_settings(const Config& config) {
  for (const Config::Entry& entry : config.entries()) {
    std::cout << "  " << std::left << std::setw(52) << concat(entry.key, " = ", entry.value) << ' ' << entry.origin << '\n';
  }
  std::cout << std::endl;
}

void run_train(const TrainArguments& arguments, const Environment& mpi) {
  const Communicator comm = mpi.world().dup();
  set_threads_per_rank(find_topology(comm));
  Config config = Config::from_file(arguments.config);
  for (const std::string& setting : arguments.settings) config.set(setting);
  if (!arguments.data.empty()) config.set("data.directory='" + arguments.data + "'", "--data");
  const TrainConfig read = read_train_config(config);
  if (comm.rank() == 0) print_settings(config);

  const ImageDataset train_set = load_mnist(read.data_directory, Split::train);
  const ImageDataset test_set = load_mnist(read.data_directory, Split::test);
  torch::manual_seed(static_cast<uint64_t>(read.run.seed));
  const train::Model model = make_model(read.model, train_set);
  const auto optimizer = make_optimizer(read.optimizer, *model.module);

  train::Console console(std::cout, output_is_terminal(), read.run);
  std::vector<train::Observer*> observers{&console};
  std::optional<train::MetricsLog> metrics;
  if (comm.rank() == 0) observers.push_back(&metrics.emplace(read.run));
  train::fit(comm, model, *optimizer, train_set, test_set, read.run, observers);
}

}  // namespace

void add_train(CLI::App& app, Environment& mpi) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train a network on all ranks");
  command->add_option("config", arguments->config, "TOML file")->required();
  command->add_option("--set", arguments->settings, "key=value: replaces a value of the file; may be given several times")->allow_extra_args(false);
  command->add_option("--data", arguments->data, "Directory in MNIST's layout; the same as --set data.directory=DIR");
  command->callback([arguments, &mpi] { run_train(*arguments, mpi); });
}

}  // namespace tw::tool
