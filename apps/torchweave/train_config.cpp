// SPDX-License-Identifier: Apache-2.0
#include "train_config.hpp"

#include <algorithm>
#include <iterator>
#include <tw/base/concat.hpp>
#include <tw/train/mesh_sizes.hpp>

#include "model_kinds.hpp"
#include "validation.hpp"

namespace tw::tool {
namespace {

/// The condition that model.name is a model that reads this key.
Condition with_models_of(const std::string& key) {
  Condition condition{"model.name", {}};
  for (const ModelKind& kind : model_kinds()) {
    if (kind.is_trained && std::ranges::count(kind.keys, key) > 0) condition.values.push_back(kind.name);
  }
  return condition;
}

}  // namespace

void visit(DataOptions& data, OptionVisitor& visitor) {
  const Condition images{"data.kind", {"mnist"}};
  visitor.field(
      "kind", data.kind, {"mnist", "regression", "adding"},
      {.meaning = "mnist: labeled images in MNIST's layout; regression: folders train/ and test/ with NPY shards or CSV; adding: the adding "
                  "problem, generated sequences of numbers, of which two are marked and must be added"});
  visitor.field("directory", data.directory, {.meaning = "folder of the data", .applies_if = {{"data.kind", {"mnist", "regression"}}}});
  visitor.field("header", data.header, {"automatic", "present", "absent"},
                {.meaning = "whether the first line of a CSV names its columns; automatic: if none of its fields looks like a value",
                 .applies_if = {{"data.kind", {"regression"}}}});
  visitor.field("shift", data.shift, at_least(0), {.meaning = "largest random shift of training images", .unit = "pixels", .applies_if = {images}});
  visitor.field("flip", data.flip, {.meaning = "mirror training images at random", .applies_if = {images}});
  visitor.field("train_samples", data.train_samples, at_least(0, any_count),
                {.meaning = "number of samples used, from the start of the training set; 0: all, or 10,000 for adding", .unit = "samples"});
  visitor.field("test_samples", data.test_samples, at_least(0, any_count),
                {.meaning = "number of samples used, from the start of the test set; 0: all, or 1,000 for adding", .unit = "samples"});
  visitor.field(
      "validation", data.validation,
      {.meaning = "validation set, which decides about early stopping, the best model and a search; the test set never does. A share of the "
                  "training set to hold out, such as 0.1, the same share of each class; or a number of samples; or another folder with "
                  "the layout of `data.directory`, whose training part is used; 0: no validation set"});
  visitor.field("validation_seed", data.validation_seed, at_least(0, any_count), {.meaning = "seed that determines which samples are held out"});
  visitor.field("steps", data.steps, at_least(2), {.meaning = "length of a sequence", .applies_if = {{"data.kind", {"adding"}}}});
}

void visit(ModelOptions& model, OptionVisitor& visitor) {
  visitor.field("name", model.name, models_that(&ModelKind::is_trained), {.meaning = "network to train"});
  visitor.field("dtype", model.dtype, {"float32", "float64"}, {.meaning = "dtype of the parameters"});
  visitor.field(
      "device", model.device,
      {.meaning = "device to train on: cpu; a kind such as cuda, whose devices the ranks of a node share in turn; one device for all ranks of a "
                  "node, such as cuda:1; or auto: an accelerator if all ranks have one, otherwise cpu"});
  visitor.field("width", model.width, at_least(1),
                {.meaning = "width of the hidden layers, or of a recurrent state", .applies_if = {with_models_of("width")}});
  visitor.field("hidden_layers", model.hidden_layers, at_least(0),
                {.meaning = "number of hidden layers", .applies_if = {with_models_of("hidden_layers")}});
  visitor.field("blocks", model.blocks, at_least(1),
                {.meaning = "number of blocks in each stage of the network", .applies_if = {with_models_of("blocks")}});
  visitor.field("layers", model.layers, at_least(2),
                {.meaning = "number of layers, which can be in parallel along `mesh.layer`", .applies_if = {with_models_of("layers")}});
  visitor.field("channels", model.channels, at_least(1), {.meaning = "channels of each layer", .applies_if = {with_models_of("channels")}});
  visitor.field("conv_layers", model.conv_layers, at_least(1),
                {.meaning = "number of consecutive convolutions", .applies_if = {with_models_of("conv_layers")}});
  visitor.field("activation", model.activation, {"relu", "sigmoid", "tanh"},
                {.meaning = "activation function after each convolution", .applies_if = {with_models_of("activation")}});
  visitor.field("stacked", model.stacked, at_least(1), {.meaning = "number of stacked recurrent layers", .applies_if = {with_models_of("stacked")}});
  visitor.field("bidirectional", model.bidirectional,
                {.meaning = "whether each recurrent layer runs in both directions of time", .applies_if = {with_models_of("bidirectional")}});
  visitor.field("longest_memory", model.longest_memory, at_least(0),
                {.meaning = "longest memory of the initial weights; 0: LibTorch's initial weights",
                 .unit = "time steps",
                 .applies_if = {with_models_of("longest_memory")}});
  visitor.field(
      "step_inputs", model.step_inputs, at_least(1),
      {.meaning = "numbers of an image per time step; 1: pixel by pixel", .applies_if = {with_models_of("step_inputs"), {"data.kind", {"mnist"}}}});
  visitor.field("path", model.path, {.meaning = "file of the TorchScript module", .applies_if = {with_models_of("path")}});
}

void visit(OptimizerOptions& optimizer, OptionVisitor& visitor) {
  visitor.field("name", optimizer.name, {"sgd", "adam", "adamw", "rmsprop", "adagrad"}, {.meaning = "one of LibTorch's optimizers"});
  visitor.field("lr", optimizer.lr, {.least = 0, .excludes_least = true}, {.meaning = "learning rate"});
  visitor.field("momentum", optimizer.momentum, {.least = 0, .most = 1, .excludes_most = true},
                {.meaning = "momentum of the updates", .applies_if = {{"optimizer.name", {"sgd", "rmsprop"}}}});
  visitor.field("nesterov", optimizer.nesterov, {.meaning = "whether the momentum is Nesterov's", .applies_if = {{"optimizer.name", {"sgd"}}}});
  visitor.field("weight_decay", optimizer.weight_decay, {.least = 0}, {.meaning = "weight decay of all parameters"});
}

void visit(StallOptions& stall, OptionVisitor& visitor) {
  constexpr Bounds a_wait{.least = 0, .most = 1e9, .excludes_least = true};
  visitor.field("warning", stall.warning, a_wait, {.meaning = "seconds that a rank waits for others before late ranks are logged", .unit = "s"});
  visitor.field("abort", stall.abort, a_wait,
                {.meaning = "seconds that a rank waits before late ranks are logged again and the job ends", .unit = "s"});
}

void visit(MeshOptions& mesh, OptionVisitor& visitor) {
  visitor.field("data", mesh.data, at_least(0),
                {.meaning = "ranks with different samples; 0: all remaining ranks, or 1 with shard = 0", .unit = "ranks"});
  visitor.field(
      "shard", mesh.shard, at_least(0),
      {.meaning = "ranks with different samples, among which the model is divided, see `shard.what`; 0: all remaining ranks", .unit = "ranks"});
  visitor.field("layer", mesh.layer, at_least(1),
                {.meaning = "ranks that hold one model together, with its layers or time steps in parallel", .unit = "ranks"});
  visitor.field("stage", mesh.stage, at_least(1), {.meaning = "ranks that hold one model together, in the stages of a pipeline", .unit = "ranks"});
  visitor.field(
      "selection", mesh.selection,
      {.meaning = "file that `torchweave bench comm --tune` has written, with the backend for each collective; empty: selected by formula"});
}

std::vector<MeshAxis> axes_of(const MeshOptions& mesh) {
  const auto size_of = [](int64_t size) { return size > 0 ? static_cast<int>(size) : -1; };
  std::vector<MeshAxis> axes{{"data", mesh.shard == 0 ? static_cast<int>(std::max<int64_t>(1, mesh.data)) : size_of(mesh.data)}};
  if (mesh.shard != 1) axes.push_back({"shard", size_of(mesh.shard)});
  axes.push_back(mesh.stage > 1 ? MeshAxis{"stage", static_cast<int>(mesh.stage)} : MeshAxis{"layer", static_cast<int>(mesh.layer)});
  return axes;
}

namespace {

/// Fields of the group layer_parallel that one kind of network has.
template <class Options>
struct Training {
  Options& options;
};
template <class Options>
void visit(Training<Options>& training, OptionVisitor& visitor) {
  visit_training(training.options, visitor);
}

// "a" or "b" or "c", with the quotes.
std::string any_of(const std::vector<std::string>& names) { return '"' + joined(names, "\" or \"") + '"'; }

// Numbers of ranks, as far as they are known before MPI starts: "all remaining ranks" count as two along `shard`, and as one group along `data`.
train::MeshSizes known_sizes(const MeshOptions& mesh, const train::ReplicaOptions& replicas) {
  const int64_t remaining = mesh.shard == 0 ? 1 : replicas.ranks_per_group;
  return {.data = static_cast<int>(mesh.data > 0 ? mesh.data : remaining),
          .shard = mesh.shard == 0 ? 2 : static_cast<int>(mesh.shard),
          .parts = static_cast<int>(std::max(mesh.stage, mesh.layer))};
}

// Problems of values that are valid alone but not together, across groups of options.
std::vector<Problem> contradictions(const TrainConfig& read) {
  std::vector<Problem> found;
  const train::Options& run = read.run;
  const bool images = read.data.kind == "mnist";
  if (read.optimizer.nesterov && (read.optimizer.name != "sgd" || read.optimizer.momentum == 0)) {
    found.push_back({"optimizer.nesterov", "is for optimizer.name = \"sgd\" with a momentum", "false"});
  }
  const bool elastic_momentum = run.replicas.meet == train::Meeting::parameter_server && run.replicas.algorithm == train::ServerAlgorithm::eamsgd;
  if (elastic_momentum && !read.optimizer.nesterov) {
    found.push_back({"replicas.algorithm", "is \"eamsgd\", which requires optimizer.name = \"sgd\" and optimizer.nesterov = true", "\"easgd\""});
  }
  const ModelKind& kind = *find_model_kind(read.model.name);
  if (!images && kind.takes_images) {
    found.push_back({"model.name", concat("is \"", read.model.name, "\", which takes images, but data.kind is \"", read.data.kind, "\""), "\"mlp\""});
  }
  if (read.mesh.layer > 1 && !kind.has_layers_in_parallel) {
    found.push_back({"mesh.layer",
                     concat("is for model.name = ", any_of(models_that(&ModelKind::has_layers_in_parallel)),
                            ", whose layers or time steps can be in parallel, not for \"", read.model.name, "\""),
                     "1"});
  }
  if (read.mesh.stage > 1 && !kind.supports_stages) {
    found.push_back({"mesh.stage", concat("is not supported for model.name = \"", read.model.name, "\", which cannot be cut into stages"), "1"});
  }
  std::ranges::move(train::contradictions(run.shard, run.replicas, known_sizes(read.mesh, run.replicas)), std::back_inserter(found));
  if (run.precision.compute != ComputeType::float32 && read.model.dtype != "float32") {
    found.push_back({"precision.compute", concat("is for model.dtype = \"float32\", not \"", read.model.dtype, '"'), "\"float32\""});
  }
  if (run.precision.compute != ComputeType::float32 && (read.model.name == "gru" || read.model.name == "lstm")) {
    found.push_back({"precision.compute", concat("is not supported for model.name = \"", read.model.name, "\", whose time steps are in parallel"),
                     "\"float32\""});
  }
  if (!images && (read.data.shift > 0 || read.data.flip)) {
    found.push_back({"data.shift", concat("and data.flip are for images, but data.kind is \"", read.data.kind, "\""), "0 and false"});
  }
  if (read.model.name == "torchscript" && read.model.path.empty()) {
    found.push_back({"model.path", "must name a TorchScript file if model.name = \"torchscript\"", "\"model.pt\""});
  }
  if (const std::string wrong = problem_of_validation(read.data); !wrong.empty()) {
    found.push_back({"data.validation", wrong, "0.1"});
  } else if (run.early_stopping.patience > 0 && !validation_of(read.data).is_there()) {
    found.push_back({"early_stopping.patience", "needs a validation set, but data.validation is 0", "0"});
  }
  const std::string& watch = run.early_stopping.watch;
  if (watch != "loss" && watch != (images ? "accuracy" : "mae")) {
    found.push_back(
        {"early_stopping.watch", concat("is \"", watch, "\", which is not measured on data of kind \"", read.data.kind, "\""), "\"loss\""});
  }
  return found;
}

}  // namespace

void visit(TrainConfig& config, OptionVisitor& visitor) {
  visit(config.run, visitor);
  visitor.group("data", config.data);
  visitor.group("model", config.model);
  visitor.group("optimizer", config.optimizer);
  visitor.group("mesh", config.mesh);
  visitor.group("pipeline", config.pipeline, {{"mesh.stage", {"1"}, /*negated=*/true}});
  visitor.group("layer_parallel", config.layer_parallel, {{"model.name", models_that(&ModelKind::has_layers_in_parallel)}});
  Training layers{config.layers};
  Training recurrent{config.recurrent};
  visitor.group("layer_parallel", layers, {{"model.name", {"residual"}}});
  visitor.group("layer_parallel", recurrent, {{"model.name", {"gru", "lstm"}}});
  visitor.group("stall", config.stall);
}

namespace {

const std::vector<std::pair<std::string, std::string>> renamed_keys{
    {"strategy.name", "replicas.meet, or mesh.shard and shard.what for a model that is divided among ranks"},
    {"strategy.release_gradients", "shard.what, with the value \"gradients\""},
    {"strategy.one_copy_per_node", "shard.one_copy_per_node"},
    {"strategy.unit_bytes", "shard.unit_bytes"},
    {"strategy.prefetch_units", "shard.prefetch_units"},
    {"strategy.resident_bytes", "shard.resident_bytes"},
    {"strategy.compression", "replicas.compression"},
    {"strategy.top_k_fraction", "replicas.top_k_fraction"},
    {"strategy.power_sgd_rank", "replicas.power_sgd_rank"},
    {"strategy.period", "replicas.period"},
    {"strategy.outer_lr", "replicas.outer_lr"},
    {"strategy.outer_momentum", "replicas.outer_momentum"},
    {"strategy.algorithm", "replicas.algorithm"},
    {"strategy.beta", "replicas.beta"},
    {"strategy.staleness", "replicas.staleness"},
    {"max_gradient_norm", "clip.norm"}};

}  // namespace

TrainConfig read_train_config(Config& config) {
  for (const auto& [key, now] : renamed_keys) config.note_renamed(key, now);
  TrainConfig read;
  config.bind(read);
  for (const Problem& problem : read.run.contradictions()) config.report(problem);
  for (const Problem& problem : read.layer_parallel.contradictions()) config.report(problem);
  for (const Problem& problem : contradictions(read)) config.report(problem);
  config.finish();
  return read;
}

}  // namespace tw::tool
