// SPDX-License-Identifier: Apache-2.0
#include "train_setup.hpp"

#include <torch/nn/module.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/file.hpp>
#include <tw/base/random.hpp>
#include <tw/comm/ranks_along.hpp>
#include <tw/layer_parallel/iteration_control.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/layer_parallel/sequence_model.hpp>
#include <tw/models/residual.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/pipeline/planned_model.hpp>

#include "model_kinds.hpp"
#include "train_rows.hpp"

namespace tw::tool {
namespace {

// The number of classes in MNIST and its successors, as load_mnist() reads them.
constexpr int64_t mnist_classes = 10;

int64_t elements_of_a_sample(const at::Tensor& tensor) { return tensor.numel() / std::max<int64_t>(1, tensor.size(0)); }

// Reshapes the model's outputs to [n, ...], as the targets have it.
Callable shaped(Callable model, const std::vector<int64_t>& shape) {
  model.forward = [inner = std::move(model.forward), shape](const at::Tensor& inputs) {
    std::vector<int64_t> wanted{inputs.size(0)};
    wanted.insert(wanted.end(), shape.begin() + 1, shape.end());
    return inner(inputs).reshape(wanted);
  };
  return model;
}

std::shared_ptr<layer_parallel::LayerParallel> make_residual(const TrainConfig& config, const at::Tensor& images, const Communicator& comm) {
  using layer_parallel::block;
  layer_parallel::LayerParallelOptions options = config.layers;
  config.layer_parallel.apply_to(options);
  options.seed = static_cast<uint64_t>(config.run.seed);
  const int64_t channels = config.model.channels;
  const int64_t height = (images.size(2) + 1) / 2;
  const int64_t width = (images.size(3) + 1) / 2;
  return std::make_shared<layer_parallel::LayerParallel>(
      comm,
      std::vector<layer_parallel::Block>{block([=] { return models::residual_opening(channels); }, 1),
                                         block([=] { return models::ResidualLayer(channels); }, config.model.layers),
                                         block([=] { return models::residual_closing(channels, (height / 2) * (width / 2), mnist_classes); }, 1)},
      options);
}

std::shared_ptr<layer_parallel::SequenceModel> make_sequence_model(const TrainConfig& config, const Batch& sample, const Communicator& comm) {
  using namespace layer_parallel;
  const bool images = config.data.kind == "mnist";
  const at::Tensor& inputs = sample.inputs;  // [1, steps] or [1, steps, numbers]
  if (!images && inputs.dim() != 2 && inputs.dim() != 3) {
    throw Error(concat("model ", config.model.name, " takes sequences of shape [steps] or [steps, numbers], but these samples have the shape ",
                       inputs.sizes().slice(1)));
  }
  const int64_t step_inputs = images ? config.model.step_inputs : inputs.dim() == 3 ? inputs.size(2) : 1;
  if (inputs.numel() % step_inputs != 0)
    throw Error(concat("model.step_inputs must divide the ", inputs.numel(), " numbers of an image, got ", step_inputs));
  RecurrentOptions options = config.recurrent;
  config.layer_parallel.apply_to(options);
  options.cell = config.model.name == "gru" ? Cell::gru : Cell::lstm;
  options.input_size = step_inputs;
  options.hidden_size = config.model.width;
  options.layers = config.model.stacked;
  options.bidirectional = config.model.bidirectional;
  options.longest_memory = config.model.longest_memory;
  options.seed = static_cast<uint64_t>(config.run.seed);
  return std::make_shared<SequenceModel>(comm, options, images ? std::vector<int64_t>{mnist_classes} : sample.targets.sizes().slice(1).vec());
}

Callable script_of(const TrainConfig& config) {
  try {
    return load_script(config.model.path);
  } catch (const FileError& error) {
    throw Error(concat("model.path: ", error.what()));
  }
}

Callable make_model(const TrainConfig& config, const Dataset& dataset) {
  if (config.model.name == "torchscript") return script_of(config);
  const ModelKind& kind = *find_model_kind(config.model.name);
  const Batch sample = first_samples(dataset, 1);
  const at::IntArrayRef row = sample.inputs.sizes().slice(1);
  if (config.data.kind == "mnist") return kind.make(config.model, row, mnist_classes);
  return shaped(kind.make(config.model, row, elements_of_a_sample(sample.targets)), sample.targets.sizes().vec());
}

at::ScalarType dtype_of(const TrainConfig& config) { return config.model.dtype == "float64" ? at::kDouble : at::kFloat; }

// This rank's stage of the model, by a plan for all ranks of the axis.
train::Model make_stages(const TrainConfig& config, const Callable& whole, const Mesh& mesh, c10::Device device, TrainSetup& setup) {
  const Communicator& comm = mesh["stage"];
  const int64_t rows = rows_of_a_pass(config, sample_ranks(mesh));
  whole.module->to(device, dtype_of(config));
  pipeline::ModelPlanOptions options = config.pipeline;
  options.devices = comm.size();
  if (options.plan.empty()) options.stages = comm.size();  // replicas lie along `data`
  options.batch = rows;
  const graph::Forward forward = [forward = whole.forward, dtype = dtype_of(config)](const std::vector<at::Tensor>& inputs) {
    return std::vector<at::Tensor>{forward(inputs[0].to(dtype))};
  };
  // On the whole mesh, so that all copies of the model are cut alike.
  const at::Tensor example = first_samples(*setup.data.train_set, rows, device).inputs;
  const pipeline::ModelPlan planned = plan_together(mesh.comm(), *whole.module, forward, {example}, options);
  if (planned.best().devices() != comm.size()) {
    throw Error(concat("the plan for this model and ", rows, " rows uses ", planned.best().devices(), " of ", comm.size(),
                       " ranks: set mesh.stage to the number that it uses, or use larger batches"));
  }
  if (mesh.comm().rank() == 0) setup.explanation = planned.explain() + '\n';
  const uint64_t seed =
      derived_seed(static_cast<uint64_t>(config.run.seed), static_cast<uint64_t>(sample_coordinate(mesh)));  // different samples need different masks
  return train::model_of(std::make_shared<pipeline::Pipeline>(comm, *whole.module, planned, seed));
}

/// Converts inputs to the dtype of the model.
class OfDtype : public ModelDecorator {
 public:
  OfDtype(std::shared_ptr<TrainableModel> inner, at::ScalarType dtype) : ModelDecorator(std::move(inner)), dtype_(dtype) {}

  at::Tensor forward(const at::Tensor& inputs) override { return inner()->forward(inputs.to(dtype_)); }
  at::Tensor evaluate(const at::Tensor& inputs) override { return inner()->evaluate(inputs.to(dtype_)); }
  void pass(const TrainingPass& pass) override {
    const at::Tensor inputs = pass.inputs.to(dtype_);
    inner()->pass({inputs, pass.targets, pass.loss, pass.weight, pass.number, pass.epoch, pass.on_loss});
  }

 private:
  at::ScalarType dtype_;
};

// Moves parameters and buffers to `device`, and converts floating-point ones and later inputs to `dtype`.
train::Model placed(train::Model model, at::ScalarType dtype, c10::Device device) {
  const torch::NoGradGuard no_grad;
  for (const NamedTensor& tensor : model.all_tensors()) {
    const bool in_dtype = tensor.tensor.is_floating_point() || tensor.tensor.requires_grad();
    tensor.tensor.set_data(tensor.tensor.to(device, in_dtype ? dtype : tensor.tensor.scalar_type()));
  }
  model.trained = std::make_shared<OfDtype>(std::move(model.trained), dtype);
  return model;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const OptimizerOptions& options, const std::vector<at::Tensor>& parameters) {
  namespace optim = torch::optim;
  if (options.name == "adam") return std::make_unique<optim::Adam>(parameters, optim::AdamOptions(options.lr).weight_decay(options.weight_decay));
  if (options.name == "adamw") return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions(options.lr).weight_decay(options.weight_decay));
  if (options.name == "adagrad") {
    return std::make_unique<optim::Adagrad>(parameters, optim::AdagradOptions(options.lr).weight_decay(options.weight_decay));
  }
  if (options.name == "rmsprop") {
    return std::make_unique<optim::RMSprop>(parameters,
                                            optim::RMSpropOptions(options.lr).momentum(options.momentum).weight_decay(options.weight_decay));
  }
  return std::make_unique<optim::SGD>(
      parameters, optim::SGDOptions(options.lr).momentum(options.momentum).nesterov(options.nesterov).weight_decay(options.weight_decay));
}

Augmentation make_augmentation(const DataOptions& options) {
  std::vector<Augmentation> steps;
  if (options.shift > 0) steps.push_back(random_shift(options.shift));
  if (options.flip) steps.push_back(random_horizontal_flip());
  return steps.empty() ? Augmentation() : compose(std::move(steps));
}

}  // namespace

void watch(Environment& mpi, const StallOptions& stall) {
  const auto time = [](double seconds) { return std::chrono::milliseconds(std::llround(1000 * seconds)); };
  mpi.watch(time(stall.warning), time(stall.abort));
}

int sample_ranks(const Mesh& mesh) { return size_along(mesh.shape(), "data") * size_along(mesh.shape(), "shard"); }

int sample_coordinate(const Mesh& mesh) {
  const int shards = size_along(mesh.shape(), "shard");
  return mesh.coordinate("data") * shards + (shards > 1 ? mesh.coordinate("shard") : 0);
}

Mesh make_train_mesh(const TrainConfig& config, const Communicator& comm) { return Mesh::on_nodes(comm, axes_of(config.mesh)); }

train::Trainer make_trainer(const TrainConfig& config, TrainSetup& setup, const Mesh& mesh) {
  const auto& [train_set, validation_set, test_set, opened] = setup.data;
  return {mesh, setup.model, *setup.optimizer, setup.objective, *train_set, *test_set, config.run, validation_set.get()};
}

TrainSetup make_train_setup(TrainConfig& config, const Mesh& mesh, TrainData data, c10::Device device) {
  TrainSetup setup;
  setup.data = std::move(data);
  config.run.augmentation = make_augmentation(config.data);
  const bool images = config.data.kind == "mnist";
  setup.unit = images ? "images" : "samples";
  setup.objective = images ? train::classification() : train::regression();
  torch::manual_seed(static_cast<uint64_t>(config.run.seed));
  if (find_model_kind(config.model.name)->has_layers_in_parallel) {
    const Batch sample = first_samples(*setup.data.train_set, 1);
    const auto take = [&](const auto& network) {
      setup.layers = network;
      setup.iterations = std::make_shared<layer_parallel::IterationControl>(network, network, config.layer_parallel.schedule.stages(),
                                                                            config.layer_parallel.detector);
      setup.model = train::model_of(setup.iterations);
    };
    if (config.model.name == "residual") {
      take(make_residual(config, sample.inputs, mesh["layer"]));
    } else {
      take(make_sequence_model(config, sample, mesh["layer"]));
    }
  } else {
    const Callable whole = make_model(config, *setup.data.train_set);
    setup.model = config.mesh.stage > 1 ? make_stages(config, whole, mesh, device, setup) : train::model_of(whole.module, whole.forward);
  }
  setup.model = placed(std::move(setup.model), dtype_of(config), device);
  setup.optimizer = make_optimizer(config.optimizer, setup.model.tensors());
  return setup;
}

}  // namespace tw::tool
