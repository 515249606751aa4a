// SPDX-License-Identifier: Apache-2.0
#include "train_setup.hpp"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <torch/nn/module.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <ostream>
#include <tuple>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/base/number_text.hpp>
#include <tw/base/random.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/data/adding_problem.hpp>
#include <tw/data/image_dataset.hpp>
#include <tw/data/regression.hpp>
#include <tw/data/sharded_dataset.hpp>
#include <tw/layer_parallel/iteration_control.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/layer_parallel/sequence_model.hpp>
#include <tw/models/residual.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/pipeline/planned_model.hpp>
#include <tw/tensor/tensor_copies.hpp>
#include <tw/train/memory_account.hpp>

#include "model_kinds.hpp"
#include "rank_memory.hpp"

namespace tw::tool {
namespace {

// What load_mnist() finds in MNIST and its successors.
constexpr int64_t mnist_classes = 10;

Batch first_samples(const Dataset& dataset, int64_t count, c10::Device device = c10::Device(c10::kCPU)) {
  std::vector<int64_t> indices(static_cast<size_t>(std::min(count, dataset.size())));
  std::iota(indices.begin(), indices.end(), int64_t{0});
  const Batch batch = dataset.batch(indices);
  return {batch.inputs.to(device), batch.targets.to(device)};
}

int64_t global_batch_of(const TrainConfig& config, int ranks) {
  return config.run.global_batch > 0 ? config.run.global_batch : config.run.batch_size * ranks;
}

// Of one model, in a forward and backward pass. @param ranks of the data axis
int64_t rows_of_a_pass(const TrainConfig& config, int ranks) {
  return (config.run.samples_of_a_pass(global_batch_of(config, ranks), ranks) + ranks - 1) / ranks;
}

int64_t elements_of_a_sample(const at::Tensor& tensor) { return tensor.numel() / std::max<int64_t>(1, tensor.size(0)); }

// The output, of shape [n, ...] as the targets have it.
Callable shaped(Callable model, const std::vector<int64_t>& shape) {
  model.forward = [inner = std::move(model.forward), shape](const at::Tensor& inputs) {
    std::vector<int64_t> wanted{inputs.size(0)};
    wanted.insert(wanted.end(), shape.begin() + 1, shape.end());
    return inner(inputs).reshape(wanted);
  };
  return model;
}

layer_parallel::MgritOptions solver_options(const LayerOptions& layers, int iterations) {
  return {.iterations = iterations, .cycle = {.relaxations = layers.relaxations}};
}

layer_parallel::LayerParallelOptions network_options(const LayerOptions& layers, int64_t seed) {
  return {.final_time = layers.final_time,
          .levels = layers.levels,
          .coarsening = layers.coarsening,
          .forward = solver_options(layers, layers.forward_iterations),
          .backward = solver_options(layers, layers.backward_iterations),
          .guess = layers.guess == "previous"   ? layer_parallel::Guess::previous
                   : layers.guess == "by_class" ? layer_parallel::Guess::by_class
                                                : layer_parallel::Guess::zero,
          .recompute = layers.recompute,
          .seed = static_cast<uint64_t>(seed)};
}

std::shared_ptr<layer_parallel::LayerParallel> make_residual(const TrainConfig& config, const at::Tensor& images, const Communicator& comm) {
  using layer_parallel::block;
  const int64_t channels = config.model.channels;
  const int64_t height = (images.size(2) + 1) / 2;
  const int64_t width = (images.size(3) + 1) / 2;
  return std::make_shared<layer_parallel::LayerParallel>(
      comm,
      std::vector<layer_parallel::Block>{block([=] { return models::residual_opening(channels); }, 1),
                                         block([=] { return models::ResidualLayer(channels); }, config.model.layers),
                                         block([=] { return models::residual_closing(channels, (height / 2) * (width / 2), mnist_classes); }, 1)},
      network_options(config.layer_parallel, config.run.seed));
}

std::vector<layer_parallel::IterationStage> stages_of(const IterationSchedule& schedule) {
  std::vector<layer_parallel::IterationStage> stages;
  for (size_t i = 0; i < schedule.epochs.size(); ++i) stages.push_back({schedule.epochs[i], {schedule.forward[i], schedule.backward[i]}});
  return stages;
}

std::shared_ptr<layer_parallel::SequenceModel> make_sequence_model(const TrainConfig& config, const Batch& sample, const Communicator& comm) {
  using namespace layer_parallel;
  const bool images = config.data.kind == "mnist";
  const at::Tensor& inputs = sample.inputs;  // [1, steps] or [1, steps, numbers]
  if (!images && inputs.dim() != 2 && inputs.dim() != 3) {
    throw Error(concat("model ", config.model.name, " takes sequences, [steps] or [steps, numbers], but these are ", inputs.sizes().slice(1)));
  }
  const int64_t step_inputs = images ? config.model.step_inputs : inputs.dim() == 3 ? inputs.size(2) : 1;
  if (inputs.numel() % step_inputs != 0)
    throw Error(concat("model.step_inputs must divide the ", inputs.numel(), " numbers of an image, got ", step_inputs));
  const LayerOptions& layers = config.layer_parallel;
  const RecurrentOptions options{.cell = config.model.name == "gru" ? Cell::gru : Cell::lstm,
                                 .input_size = step_inputs,
                                 .hidden_size = config.model.width,
                                 .layers = config.model.stacked,
                                 .bidirectional = config.model.bidirectional,
                                 .solver = layers.solver == "newton"         ? TimeSolver::newton
                                           : layers.solver == "quasi_newton" ? TimeSolver::quasi_newton
                                                                             : TimeSolver::mgrit,
                                 .coarse_cell = layers.coarse_cell == "implicit" ? CoarseCell::implicit : CoarseCell::frozen_gates,
                                 .levels = layers.levels,
                                 .coarsening = layers.coarsening,
                                 .forward = solver_options(layers, layers.forward_iterations),
                                 .backward = solver_options(layers, layers.backward_iterations),
                                 .longest_memory = config.model.longest_memory,
                                 .seed = static_cast<uint64_t>(config.run.seed)};
  return std::make_shared<SequenceModel>(comm, options, images ? std::vector<int64_t>{mnist_classes} : sample.targets.sizes().slice(1).vec());
}

Callable make_model(const TrainConfig& config, const Dataset& dataset) {
  const ModelKind& kind = *find_model_kind(config.model.name);
  const Batch sample = first_samples(dataset, 1);
  const at::IntArrayRef row = sample.inputs.sizes().slice(1);
  if (config.data.kind == "mnist") return kind.make(config.model, row, mnist_classes);
  return shaped(kind.make(config.model, row, elements_of_a_sample(sample.targets)), sample.targets.sizes().vec());
}

at::ScalarType dtype_of(const TrainConfig& config) { return config.model.dtype == "float64" ? at::kDouble : at::kFloat; }

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) throw FileError(path, 0, "cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

// The model's stage of this rank, as planned for all ranks of the axis.
train::Model make_stages(const TrainConfig& config, const Callable& whole, const Mesh& mesh, c10::Device device, TrainSetup& setup) {
  const Communicator& comm = mesh["stage"];
  const int64_t rows = rows_of_a_pass(config, mesh["data"].size());
  const StageOptions& options = config.pipeline;
  whole.module->to(device, dtype_of(config));
  pipeline::ModelPlanOptions of_plan{.devices = comm.size(), .batch = rows, .profile_cache = options.profile_cache};
  if (options.micro_batches > 0) of_plan.micro_batches = static_cast<int>(options.micro_batches);
  if (options.schedule == "gpipe") of_plan.schedule = pipeline::ScheduleKind::gpipe;
  if (options.schedule == "1f1b") of_plan.schedule = pipeline::ScheduleKind::one_forward_one_backward;
  const graph::Forward forward = [forward = whole.forward, dtype = dtype_of(config)](const std::vector<at::Tensor>& inputs) {
    return std::vector<at::Tensor>{forward(inputs[0].to(dtype))};
  };
  // On the whole mesh, so that all copies of the model are cut alike.
  pipeline::ModelPlan planned = plan_together(mesh.comm(), *whole.module, forward, {first_samples(*setup.train_set, rows, device).inputs}, of_plan);
  if (!options.plan.empty()) {
    on_all_ranks(mesh.comm(), "reading the plan " + options.plan.string(),
                 [&] { planned.use(pipeline::plan_from_json(text_of_file(options.plan), planned.result().profile, comm.size())); });
  }
  if (planned.best().devices() != comm.size()) {
    throw Error(concat("the plan for this model and ", rows, " rows uses ", planned.best().devices(), " of ", comm.size(),
                       " ranks: set mesh.stage to that, or take larger batches"));
  }
  if (mesh.comm().rank() == 0) setup.explanation = planned.explain() + '\n';
  const uint64_t seed =
      derived_seed(static_cast<uint64_t>(config.run.seed), static_cast<uint64_t>(mesh.coordinate("data")));  // other samples, other masks
  return train::model_of(std::make_shared<pipeline::Pipeline>(comm, *whole.module, planned, seed));
}

/// A model whose inputs are given in another dtype.
class OfDtype : public ModelOverModel {
 public:
  OfDtype(std::shared_ptr<TrainedModel> inner, at::ScalarType dtype) : ModelOverModel(std::move(inner)), dtype_(dtype) {}

  at::Tensor forward(const at::Tensor& inputs) override { return inner()->forward(inputs.to(dtype_)); }
  void pass(const TrainingPass& pass) override {
    const at::Tensor inputs = pass.inputs.to(dtype_);
    inner()->pass({inputs, pass.targets, pass.loss, pass.weight, pass.number, pass.epoch, pass.on_loss});
  }

 private:
  at::ScalarType dtype_;
};

// Parameters on `device`, and they and inputs in `dtype`.
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

/// The beginning of a data set.
class FirstSamples : public Dataset {
 public:
  FirstSamples(std::shared_ptr<const Dataset> whole, int64_t size) : whole_(std::move(whole)), size_(size) {}
  int64_t size() const override { return size_; }
  Batch batch(std::span<const int64_t> indices) const override {
    for (const int64_t index : indices) TW_EXPECTS(index < size_, "there is no sample ", index, "; there are ", size_);
    return whole_->batch(indices);
  }

 private:
  std::shared_ptr<const Dataset> whole_;
  int64_t size_;
};

std::shared_ptr<const Dataset> open_split(const DataOptions& options, Split split, int64_t samples) {
  std::shared_ptr<const Dataset> whole;
  if (options.kind == "adding") {
    const bool trains = split == Split::train;
    constexpr uint64_t of_training = 1;
    constexpr uint64_t of_test = 2;
    const int64_t all = trains ? 10000 : 1000;
    return std::make_shared<TensorDataset>(make_adding_problem(samples > 0 ? samples : all, options.steps, trains ? of_training : of_test));
  }
  if (options.kind == "mnist") {
    whole = std::make_shared<ImageDataset>(load_mnist(options.directory, split));
  } else {
    whole = load_regression(options.directory, split);
  }
  if (samples == 0 || samples >= whole->size()) return whole;
  return std::make_shared<FirstSamples>(std::move(whole), samples);
}

Augmentation make_augmentation(const DataOptions& options) {
  std::vector<Augmentation> steps;
  if (options.shift > 0) steps.push_back(random_shift(options.shift));
  if (options.flip) steps.push_back(random_horizontal_flip());
  return steps.empty() ? Augmentation() : compose(std::move(steps));
}

// For each parameter: tensors that the optimizer keeps, and those that its step makes and lets go.
std::pair<int, int> tensors_of_rule(const OptimizerOptions& options) {
  const int decayed = options.weight_decay > 0 ? 1 : 0;
  const int momentum = options.momentum > 0 ? 1 : 0;
  if (options.name == "adam") return {2, 2 + decayed};
  if (options.name == "adamw") return {2, 2};
  if (options.name == "rmsprop") return {1 + momentum, 1 + decayed};
  if (options.name == "adagrad") return {1, 1 + decayed};
  return {momentum, decayed + (options.nesterov ? 1 : 0)};
}

// MemAvailable of /proc/meminfo, in bytes; 0 where it is unknown.
int64_t available_memory() {
  std::ifstream in("/proc/meminfo");
  for (std::string word; in >> word;) {
    int64_t kib = 0;
    if (word == "MemAvailable:" && in >> kib) return kib * 1024;
  }
  return 0;
}

// Evaluation comes after a whole epoch: late for learning that the model does not take the test set. On as many samples as it takes at once.
void try_test_set(const TrainSetup& setup, int ranks) {
  const torch::NoGradGuard no_grad;
  if (setup.test_set->size() == 0) return;
  const int64_t rows = std::min(train::evaluation_batch, (setup.test_set->size() + ranks - 1) / ranks);
  const Batch batch = first_samples(*setup.test_set, rows, setup.model.device());
  setup.model.set_training(false);
  try {
    const at::Tensor outputs = setup.model.forward(batch.inputs);
    (void)setup.objective.loss(outputs, batch.targets.to(outputs.device()));
  } catch (const c10::Error& error) {
    throw Error(concat("the model does not take the test set, whose inputs are ", batch.inputs.sizes().slice(1), " and targets ",
                       batch.targets.sizes().slice(1), ": ", error.what_without_backtrace()));
  }
  setup.model.set_training(true);
}

/// What the first pass came to, on this rank.
struct Rehearsal {
  std::vector<int64_t> inputs;  // shapes of a sample
  std::vector<int64_t> targets;
  std::vector<int64_t> outputs;
  double loss = 0;
  int64_t batch_bytes = 0;
  train::MemoryPeak pass;
  train::MemoryPeak evaluation;
};

// Whether gradients have a place from the beginning; otherwise autograd makes them.
bool has_buckets(const train::StrategyOptions& strategy) {
  using enum train::StrategyKind;
  return strategy.kind == data || strategy.kind == sharded || strategy.kind == fully_sharded;
}

Rehearsal rehearse_pass(const TrainConfig& config, const TrainSetup& setup, int ranks) {
  Rehearsal rehearsal;
  for (const NamedTensor& each : setup.model.parameters) {
    if (each.tensor.requires_grad() && has_buckets(config.run.strategy)) each.tensor.mutable_grad() = at::zeros_like(each.tensor);
  }
  const auto held_in = [&](const char* phase, const auto& call) {
    train::MemoryAccount account(setup.model.device().type());
    account.begin();
    account.phase(phase);
    call(account);
    train::KnownMemory known;
    for (const NamedTensor& each : setup.model.parameters) {
      known.add(train::MemoryUse::parameters, each.tensor);
      known.add(train::MemoryUse::gradients, each.tensor.grad());
    }
    for (const NamedTensor& each : setup.model.buffers) known.add(train::MemoryUse::buffers, each.tensor);
    account.end(0, known);
    return account.peak();
  };
  rehearsal.pass = held_in("forward", [&](train::MemoryAccount& account) {
    const Batch batch = first_samples(*setup.train_set, rows_of_a_pass(config, ranks), setup.model.device());
    rehearsal.batch_bytes = static_cast<int64_t>(batch.inputs.nbytes() + batch.targets.nbytes());
    rehearsal.inputs = batch.inputs.sizes().slice(1).vec();
    rehearsal.targets = batch.targets.sizes().slice(1).vec();
    const TensorCopies buffers(setup.model.buffers);  // as a step keeps them
    at::Tensor outputs;
    const auto on_loss = [&](const at::Tensor& given, const at::Tensor& loss) {
      account.phase("backward");
      outputs = given;
      rehearsal.loss = loss.item<double>();
      if (!std::isfinite(rehearsal.loss)) throw Error(concat("the loss of the first batch is ", rehearsal.loss));
    };
    setup.model.trained->pass({.inputs = batch.inputs, .targets = batch.targets, .loss = setup.objective.loss, .on_loss = on_loss});
    if (outputs.defined()) rehearsal.outputs = outputs.sizes().slice(1).vec();
  });
  rehearsal.evaluation = held_in("evaluation", [&](train::MemoryAccount&) { try_test_set(setup, ranks); });
  if (rehearsal.outputs.empty()) {
    rehearsal.outputs = setup.model.forward(first_samples(*setup.train_set, 1, setup.model.device()).inputs).sizes().slice(1).vec();
  }
  return rehearsal;
}

ModelMemory memory_of_model(const TrainConfig& config, const TrainSetup& setup) {
  ModelMemory memory;
  for (const NamedTensor& each : setup.model.parameters) {
    if (each.tensor.requires_grad()) {
      memory.trained.push_back(each.spec());
    } else {
      memory.frozen_bytes += static_cast<int64_t>(each.tensor.nbytes());
    }
  }
  for (const NamedTensor& each : setup.model.buffers) memory.buffer_bytes += static_cast<int64_t>(each.tensor.nbytes());
  std::tie(memory.state_tensors, memory.passing_tensors) = tensors_of_rule(config.optimizer);
  return memory;
}

// When a rank will hold most.
train::MemoryPeak peak_of_rank(const TrainConfig& config, int ranks, const ModelMemory& model, const Rehearsal& rehearsal) {
  using train::MemoryUse;
  const train::StrategyOptions& strategy = config.run.strategy;
  const train::CheckpointPolicy& files = config.run.checkpoint;
  const int64_t file = files.every_epochs > 0 || files.every_steps > 0 ? checkpoint_memory(strategy, ranks, model) : 0;
  const bool trains_after_one = files.every_steps > 0 || (files.every_epochs > 0 && files.every_epochs < config.run.epochs);
  const train::MemoryByUse kept = kept_memory(strategy, ranks, model);
  const int64_t ahead = config.run.loader_workers > 0 ? LoaderOptions().prefetch * rehearsal.batch_bytes : 0;
  train::MemoryPeak worst;
  const auto consider = [&](const std::string& during, int64_t gradients, int64_t activations, bool has_file) {
    train::MemoryPeak peak{kept, during, 0};
    peak.held[MemoryUse::gradients] = gradients;
    peak.held[MemoryUse::activations] = activations + ahead;
    if (has_file) peak.held[MemoryUse::buffers] += file;
    if (peak.held.together() > worst.held.together()) worst = peak;
  };
  const int64_t all = kept[MemoryUse::gradients];
  const train::MemoryByUse& pass = rehearsal.pass.held;
  consider(rehearsal.pass.during, has_buckets(strategy) ? all : pass[MemoryUse::gradients],
           pass[MemoryUse::activations] + passing_buckets(strategy, ranks, model), trains_after_one);
  consider("update", all, update_memory(strategy, ranks, model) + rehearsal.batch_bytes, trains_after_one);
  consider("evaluation", all, rehearsal.evaluation.held[MemoryUse::activations] + rehearsal.batch_bytes, trains_after_one);
  // Rank 0 puts the best model together.
  const bool gathers = file > 0 && strategy.kind == train::StrategyKind::fully_sharded;
  const int64_t whole = gathers ? ranks * kept[MemoryUse::parameters] : 0;
  consider("checkpoint", all, whole + rehearsal.batch_bytes, trains_after_one || !gathers);
  return worst;
}

std::string mib(int64_t bytes) { return fixed_text(static_cast<double>(bytes) / (1 << 20), 1) + " MiB"; }

}  // namespace

void watch(Environment& mpi, const StallOptions& stall) {
  const auto time = [](double seconds) { return std::chrono::milliseconds(std::llround(1000 * seconds)); };
  mpi.watch(time(stall.warning), time(stall.abort));
}

TrainData open_data(const DataOptions& options) {
  return {open_split(options, Split::train, options.train_samples), open_split(options, Split::test, options.test_samples)};
}

Mesh make_train_mesh(const TrainConfig& config, const Communicator& comm) {
  const MeshAxis parts =
      config.mesh.stage > 1 ? MeshAxis{"stage", static_cast<int>(config.mesh.stage)} : MeshAxis{"layer", static_cast<int>(config.mesh.layer)};
  return Mesh::on_nodes(comm, {{"data", config.mesh.data > 0 ? static_cast<int>(config.mesh.data) : -1}, parts});
}

train::Trainer make_trainer(const TrainConfig& config, TrainSetup& setup, const Mesh& mesh) {
  if (setup.model.is_in_parts()) return {mesh, setup.model, *setup.optimizer, setup.objective, *setup.train_set, *setup.test_set, config.run};
  return {mesh.comm(), setup.model, *setup.optimizer, setup.objective, *setup.train_set, *setup.test_set, config.run};
}

TrainSetup make_train_setup(TrainConfig& config, const Mesh& mesh, TrainData data, c10::Device device) {
  TrainSetup setup;
  setup.train_set = std::move(data.train_set);
  setup.test_set = std::move(data.test_set);
  config.run.augmentation = make_augmentation(config.data);
  const bool images = config.data.kind == "mnist";
  setup.unit = images ? "images" : "samples";
  setup.objective = images ? train::classification() : train::regression();
  torch::manual_seed(static_cast<uint64_t>(config.run.seed));
  if (find_model_kind(config.model.name)->has_layers_in_parallel) {
    const Batch sample = first_samples(*setup.train_set, 1);
    const auto take = [&](const auto& network) {
      setup.layers = network;
      setup.iterations = std::make_shared<layer_parallel::IterationControl>(network, network, stages_of(config.layer_parallel.schedule),
                                                                            config.layer_parallel.detector);
      setup.model = train::model_of(setup.iterations);
    };
    if (config.model.name == "residual") {
      take(make_residual(config, sample.inputs, mesh["layer"]));
    } else {
      take(make_sequence_model(config, sample, mesh["layer"]));
    }
  } else if (config.model.name == "torchscript") {
    setup.model = train::load_torchscript(config.model.path);
  } else {
    const Callable whole = make_model(config, *setup.train_set);
    setup.model = config.mesh.stage > 1 ? make_stages(config, whole, mesh, device, setup) : train::model_of(whole.module, whole.forward);
  }
  setup.model = placed(std::move(setup.model), dtype_of(config), device);
  setup.optimizer = make_optimizer(config.optimizer, setup.model.tensors());
  return setup;
}

void rehearse(const TrainConfig& config, TrainSetup setup, const Mesh& mesh, std::ostream& out) {
  setup.model = train::under_autocast(std::move(setup.model), config.run.precision.compute);
  setup.objective = train::under_autocast(std::move(setup.objective), config.run.precision.compute);
  const int ranks = mesh["data"].size();
  for (const Dataset* dataset : {setup.train_set.get(), setup.test_set.get()}) {
    if (const auto* shards = dynamic_cast<const ShardedDataset*>(dataset)) shards->check_all();
  }
  const Rehearsal rehearsal = rehearse_pass(config, setup, ranks);
  const train::MemoryPeak mine = peak_of_rank(config, ranks, memory_of_model(config, setup), rehearsal);
  const std::vector<std::string> axes = setup.model.trained->axes();  // at most one of the tool's models
  const Communicator* const parts = axes.empty() ? nullptr : &mesh[axes.front()];
  int64_t elements = setup.model.trained_elements();
  std::vector<train::MemoryPeak> peaks{mine};
  if (parts != nullptr) {
    on_all_ranks(*parts, "sharing out the model", [&] {
      if (elements == 0) throw Error(concat("no layers are left to train: mesh.", axes.front(), " is too long for this model"));
    });
    const at::Tensor sum = at::zeros({1}, at::kLong).fill_(elements);
    allreduce(*parts, sum, ReduceOp::sum);
    elements = sum.item<int64_t>();
    peaks = train::peaks_of_ranks(*parts, mine);
  }
  int64_t of_all = 0;
  for (const train::MemoryPeak& peak : peaks) of_all += peak.held.together() * ranks;
  const int64_t available = available_memory();
  const int64_t batch_size = (global_batch_of(config, ranks) + ranks - 1) / ranks;
  out << "rehearsal: configuration, data and model fit together; nothing was written\n"
      << "  data           " << setup.train_set->size() << " " << setup.unit << " to train, " << setup.test_set->size() << " to test; inputs "
      << rehearsal.inputs << ", targets " << rehearsal.targets << '\n'
      << "  model          " << elements << " parameters; outputs " << rehearsal.outputs << ", first loss " << rehearsal.loss << '\n'
      << "  a step         " << batch_size << " " << setup.unit << " on each of " << ranks
      << (parts != nullptr && parts->size() > 1 ? " groups of ranks\n" : " ranks\n") << "  memory         " << train::memory_text(peaks)
      << "; on all ranks " << mib(of_all) << ", of " << mib(available) << " available on this node\n";
  if (available > 0 && of_all > available) throw Error("all ranks together need more memory than this node has, if they all run here");
}

}  // namespace tw::tool
