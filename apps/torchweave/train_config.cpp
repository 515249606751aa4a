// SPDX-License-Identifier: Apache-2.0
#include "train_config.hpp"

#include <limits>
#include <tw/base/concat.hpp>

#include "config_reader.hpp"

namespace tw::tool {
namespace {

std::string quoted(const std::string& text) { return '"' + text + '"'; }

// As the name of one folder.
std::string nearest_run_name(std::string name) {
  for (char& c : name) {
    if (!train::why_no_name({c}).empty() && c != '.') c = '_';
  }
  return train::why_no_name(name).empty() ? name : "run";
}

void read_run(Reader& reader, train::Options& run) {
  reader.take("name", run.name);
  if (const std::string why = train::why_no_name(run.name); !why.empty()) reader.refuse("name", why, quoted(nearest_run_name(run.name)));
  reader.take("output", run.output);
  reader.at_least("epochs", run.epochs, 0);
  reader.at_least("batch_size", run.batch_size, 1, train::most_samples_of_a_batch);
  reader.at_least("global_batch", run.global_batch, 0, train::most_samples_of_a_batch);
  reader.at_least("accumulation", run.accumulation, 1);
  reader.at_least("seed", run.seed, 0, std::numeric_limits<int64_t>::max());
  reader.choice<Uneven>("uneven", run.uneven, {{"exact", Uneven::exact}, {"drop", Uneven::drop}, {"pad", Uneven::pad}});
  reader.at_least("evaluate_every", run.evaluate_every, 1);
  reader.choice<train::NonFinite>("non_finite", run.non_finite,
                                  {{"stop", train::NonFinite::stop}, {"skip", train::NonFinite::skip}, {"restore", train::NonFinite::restore}});
  reader.at_least("loader_workers", run.loader_workers, 0, LoaderOptions::most_workers);
}

void read_schedule(Reader& reader, train::LearningRateOptions& schedule) {
  using Decay = train::LearningRateOptions::Decay;
  reader.choice<Decay>("schedule.decay", schedule.decay, {{"constant", Decay::constant}, {"step", Decay::step}, {"cosine", Decay::cosine}});
  reader.at_least("schedule.warm_up_steps", schedule.warm_up_steps, 0);
  reader.at_least("schedule.step_epochs", schedule.step_epochs, 1);
  reader.positive("schedule.step_factor", schedule.step_factor);
  reader.in_range("schedule.final_factor", schedule.final_factor, 0, 1);
  reader.at_least("schedule.base_batch", schedule.base_batch, 0);
}

void read_strategy(Reader& reader, train::StrategyOptions& strategy) {
  using Kind = train::StrategyKind;
  using Compression = train::CompressionKind;
  reader.choice<Kind>("strategy.name", strategy.kind,
                      {{"data", Kind::data},
                       {"sharded", Kind::sharded},
                       {"local_sgd", Kind::local_sgd},
                       {"diloco", Kind::diloco},
                       {"parameter_server", Kind::parameter_server}});
  reader.choice<Compression>("strategy.compression", strategy.compression,
                             {{"none", Compression::none},
                              {"float16", Compression::float16},
                              {"bfloat16", Compression::bfloat16},
                              {"top_k", Compression::top_k},
                              {"power_sgd", Compression::power_sgd}});
  reader.positive("strategy.top_k_fraction", strategy.top_k_fraction);
  if (strategy.top_k_fraction > 1) reader.refuse("strategy.top_k_fraction", concat("must be at most 1, got ", strategy.top_k_fraction), "1");
  reader.at_least("strategy.power_sgd_rank", strategy.power_sgd_rank, 1);
  reader.take("strategy.release_gradients", strategy.release_gradients);
  reader.take("strategy.one_copy_per_node", strategy.one_copy_per_node);
  reader.at_least("strategy.period", strategy.period, 1);
  reader.positive("strategy.outer_lr", strategy.outer_learning_rate);
  reader.in_range("strategy.outer_momentum", strategy.outer_momentum, 0, 1);
  using Algorithm = train::ServerAlgorithm;
  reader.choice<Algorithm>("strategy.algorithm", strategy.algorithm,
                           {{"downpour", Algorithm::downpour},
                            {"easgd", Algorithm::easgd},
                            {"eamsgd", Algorithm::eamsgd},
                            {"ssp", Algorithm::ssp},
                            {"sync", Algorithm::sync}});
  reader.positive("strategy.beta", strategy.beta);
  if (strategy.beta > 1) reader.refuse("strategy.beta", concat("must be at most 1, got ", strategy.beta), "0.9");
  reader.at_least("strategy.staleness", strategy.staleness, 0);
}

void read_safety(Reader& reader, train::Options& run) {
  reader.at_least("checkpoint.every_epochs", run.checkpoint.every_epochs, 0);
  reader.at_least("checkpoint.every_steps", run.checkpoint.every_steps, 0);
  reader.at_least("checkpoint.keep", run.checkpoint.keep, 1);
  reader.at_least("early_stopping.patience", run.early_stopping.patience, 0);
  reader.in_range("early_stopping.min_delta", run.early_stopping.min_delta, 0);
  reader.name("early_stopping.watch", run.early_stopping.watch, {"loss", "accuracy", "mae"});
}

void read_data(Reader& reader, DataOptions& data) {
  reader.name("data.kind", data.kind, {"mnist", "regression"});
  reader.take("data.directory", data.directory);
  reader.at_least("data.shift", data.shift, 0);
  reader.take("data.flip", data.flip);
  reader.at_least("data.train_samples", data.train_samples, 0, std::numeric_limits<int64_t>::max());
  reader.at_least("data.test_samples", data.test_samples, 0, std::numeric_limits<int64_t>::max());
}

void read_model(Reader& reader, ModelOptions& model) {
  reader.name("model.name", model.name, {"lenet", "mlp", "resnet", "convnet", "residual", "torchscript"});
  reader.name("model.dtype", model.dtype, {"float32", "float64"});
  reader.at_least("model.width", model.width, 1);
  reader.at_least("model.hidden_layers", model.hidden_layers, 0);
  reader.at_least("model.blocks", model.blocks, 1);
  reader.at_least("model.layers", model.layers, 2);
  reader.at_least("model.channels", model.channels, 1);
  reader.at_least("model.conv_layers", model.conv_layers, 1);
  reader.name("model.activation", model.activation, {"relu", "sigmoid", "tanh"});
  reader.take("model.path", model.path);
}

void read_mesh(Reader& reader, MeshOptions& mesh) {
  reader.at_least("mesh.data", mesh.data, 0);
  reader.at_least("mesh.layer", mesh.layer, 1);
  reader.at_least("mesh.stage", mesh.stage, 1);
}

void read_pipeline(Reader& reader, StageOptions& pipeline) {
  reader.at_least("pipeline.micro_batches", pipeline.micro_batches, 0);
  reader.name("pipeline.schedule", pipeline.schedule, {"best", "gpipe", "1f1b"});
  reader.take("pipeline.plan", pipeline.plan);
  reader.take("pipeline.profile_cache", pipeline.profile_cache);
}

void read_layer_parallel(Reader& reader, layer_parallel::LayerParallelOptions& options, int64_t seed) {
  options.seed = static_cast<uint64_t>(seed);
  options.final_time = 4;
  int64_t levels = options.levels;
  int64_t coarsening = 8;
  int64_t forward = options.forward.iterations;
  int64_t backward = options.backward.iterations;
  int64_t relaxations = 0;
  reader.positive("layer_parallel.final_time", options.final_time);
  reader.at_least("layer_parallel.levels", levels, 1);
  reader.at_least("layer_parallel.coarsening", coarsening, 2);
  reader.at_least("layer_parallel.forward_iterations", forward, 1);
  reader.at_least("layer_parallel.backward_iterations", backward, 1);
  reader.at_least("layer_parallel.relaxations", relaxations, 0);
  reader.take("layer_parallel.recompute", options.recompute);
  options.levels = static_cast<int>(levels);
  options.coarsening = coarsening;
  options.forward.iterations = static_cast<int>(forward);
  options.backward.iterations = static_cast<int>(backward);
  options.forward.cycle.relaxations = options.backward.cycle.relaxations = static_cast<int>(relaxations);
}

void read_optimizer(Reader& reader, OptimizerOptions& optimizer) {
  reader.name("optimizer.name", optimizer.name, {"sgd", "adam", "adamw", "rmsprop", "adagrad"});
  reader.positive("optimizer.lr", optimizer.lr);
  reader.in_range("optimizer.momentum", optimizer.momentum, 0, 1);
  reader.take("optimizer.nesterov", optimizer.nesterov);
  reader.in_range("optimizer.weight_decay", optimizer.weight_decay, 0);
}

// What is right by itself and wrong together.
void check_combinations(Reader& reader, const TrainConfig& read) {
  const train::Options& run = read.run;
  const bool images = read.data.kind == "mnist";
  if (run.non_finite == train::NonFinite::restore && run.checkpoint.every_epochs == 0 && run.checkpoint.every_steps == 0) {
    reader.refuse("non_finite", "is \"restore\", but no checkpoints are kept", "\"skip\", or checkpoint.every_epochs = 1");
  }
  const train::StrategyOptions& strategy = run.strategy;
  const bool half = strategy.compression == train::CompressionKind::float16 || strategy.compression == train::CompressionKind::bfloat16;
  const bool compresses = strategy.kind == train::StrategyKind::data || (strategy.kind == train::StrategyKind::diloco && half);
  if (strategy.compression != train::CompressionKind::none && !compresses) {
    reader.refuse("strategy.compression", "is for strategy.name = \"data\", and half precision also for \"diloco\"", "\"none\"");
  }
  if ((strategy.release_gradients || strategy.one_copy_per_node) && strategy.kind != train::StrategyKind::sharded) {
    reader.refuse("strategy.release_gradients", "and one_copy_per_node are for strategy.name = \"sharded\"", "false");
  }
  if (read.optimizer.nesterov && (read.optimizer.name != "sgd" || read.optimizer.momentum == 0)) {
    reader.refuse("optimizer.nesterov", "is for optimizer.name = \"sgd\" with a momentum", "false");
  }
  const bool elastic_momentum = strategy.kind == train::StrategyKind::parameter_server && strategy.algorithm == train::ServerAlgorithm::eamsgd;
  if (elastic_momentum && !read.optimizer.nesterov) {
    reader.refuse("strategy.algorithm", "is \"eamsgd\", which is \"easgd\" with optimizer.name = \"sgd\" and optimizer.nesterov", "\"easgd\"");
  }
  if (run.global_batch % run.accumulation != 0) {
    const int64_t nearest = (run.global_batch + run.accumulation - 1) / run.accumulation * run.accumulation;
    reader.refuse("global_batch", concat("must be a multiple of accumulation = ", run.accumulation, ", got ", run.global_batch), concat(nearest));
  }
  const bool takes_images = read.model.name != "mlp" && read.model.name != "torchscript";
  if (!images && takes_images) {
    reader.refuse("model.name", concat("is \"", read.model.name, "\", which takes images, but data.kind is \"regression\""), "\"mlp\"");
  }
  if (read.mesh.layer > 1 && read.model.name != "residual") {
    reader.refuse("mesh.layer", concat("is for model.name = \"residual\", whose layers can be in parallel, not for \"", read.model.name, "\""), "1");
  }
  if (read.mesh.stage > 1 && (read.model.name == "residual" || read.model.name == "torchscript")) {
    reader.refuse("mesh.stage", concat("is not for model.name = \"", read.model.name, "\", which is not cut into stages"), "1");
  }
  const bool in_parts = read.model.name == "residual" || read.mesh.stage > 1;
  if (in_parts && strategy.kind != train::StrategyKind::data) {
    reader.refuse("strategy.name", "must be \"data\" for a model whose layers are in parallel or in stages", "\"data\"");
  }
  if (in_parts && strategy.compression != train::CompressionKind::none) {
    reader.refuse("strategy.compression", "is not for a model whose layers are in parallel or in stages", "\"none\"");
  }
  if (!images && (read.data.shift > 0 || read.data.flip)) {
    reader.refuse("data.shift", "and data.flip are for images, but data.kind is \"regression\"", "0 and false");
  }
  if (read.model.name == "torchscript" && read.model.path.empty()) {
    reader.refuse("model.path", "must name the file of a model \"torchscript\"", "\"model.pt\"");
  }
  if (run.early_stopping.watch == (images ? "mae" : "accuracy")) {
    reader.refuse("early_stopping.watch", concat("is \"", run.early_stopping.watch, "\", which data of kind \"", read.data.kind, "\" do not have"),
                  "\"loss\"");
  }
}

}  // namespace

TrainConfig read_train_config(Config& config) {
  TrainConfig read;
  Reader reader(config);
  read_run(reader, read.run);
  read_data(reader, read.data);
  read_model(reader, read.model);
  read_optimizer(reader, read.optimizer);
  read_mesh(reader, read.mesh);
  read_pipeline(reader, read.pipeline);
  read_layer_parallel(reader, read.layer_parallel, read.run.seed);
  read_schedule(reader, read.run.learning_rate);
  read_strategy(reader, read.run.strategy);
  read_safety(reader, read.run);
  check_combinations(reader, read);
  config.finish();
  return read;
}

}  // namespace tw::tool
