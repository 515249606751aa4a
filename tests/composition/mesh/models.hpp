// SPDX-License-Identifier: Apache-2.0
// The models of the table: of each, how to divide it over a mesh, and the same in one process.
#pragma once
#include <torch/script.h>
#include <torch/torch.h>

#include <string>
#include <tw/graph/capture_modes.hpp>
#include <tw/graph/interpreter.hpp>
#include <tw/graph/torchscript.hpp>
#include <tw/tensor_parallel.hpp>

#include "../../../modules/pipeline/src/random_key.hpp"
#include "mpi_test.hpp"
#include "one_process.hpp"
#include "subjects.hpp"

namespace tw::testing::mesh {

/// How a model is given to parallelize().
enum class Kind {
  module,        ///< as a whole, can be captured
  odd,           ///< as a whole, cannot be captured
  blocks,        ///< a list
  split,         ///< a list of blocks with split layers
  split_module,  ///< as a whole, with split layers
  of_layers,     ///< blocks of layer_parallel
  split_layers,  ///< the same, with split layers
};

inline bool has_split_layers(Kind kind) { return kind == Kind::split || kind == Kind::split_module || kind == Kind::split_layers; }
inline bool is_layered(Kind kind) { return kind == Kind::of_layers || kind == Kind::split_layers; }

/// A model on a mesh, and whatever it borrows.
struct Parallel {
  std::shared_ptr<void> held;
  ParallelModel model;
};

/// Type and device of a model's floating-point tensors.
struct TensorType {
  at::ScalarType dtype = torch::kDouble;
  bool on_device = false;  ///< on testing::device(); the reference stays on the CPU

  /// Converts the tensors of a module, which it returns. Counters stay integers.
  template <class Module>
  Module operator()(Module module) const {
    for (const Tensors& tensors : {module->parameters(), module->buffers()}) {
      for (const at::Tensor& each : tensors) {
        if (each.is_floating_point()) each.set_data(each.detach().to(dtype));
      }
    }
    if (on_device) place_module(module);
    return module;
  }
  /// The same type on the CPU.
  TensorType on_cpu() const { return {.dtype = dtype}; }
  /// On the CPU, where batches are drawn.
  Batch converted(Batch batch) const {
    for (Tensors* tensors : {&batch.inputs, &batch.targets}) {
      for (at::Tensor& each : *tensors) each = each.is_floating_point() ? each.to(dtype) : each;
    }
    return batch;
  }
  Tensors placed(Tensors tensors) const {
    for (at::Tensor& each : tensors) each = on_device && each.defined() ? each.to(device()) : each;
    return tensors;
  }
};

struct TableModel {
  std::string name;
  Kind kind = Kind::module;
  TensorType type = {};
  std::function<Parallel(const Mesh& mesh, const ParallelOptions& options)> parallel = {};
  /// @param stages number of stages, on which random numbers may depend
  std::function<OneProcess(const Settings& settings, int stages)> one_process = {};
  std::function<Batch(int64_t rows)> batch = {};  ///< draws from LibTorch's generator
  std::function<Loss()> loss = {};
  bool draws = false;  ///< random numbers in training
  int most_stages = 8;
  std::string refusal = "control flow must not depend on data";  ///< of a capture, if it is odd
  bool is_random = false;                                        ///< made by the generator: errors up to 1e-9 with any optimizer
  int64_t least_rows = 1;                                        ///< in a pass; with fewer it calls other operators
  int64_t rows_of_evaluation = 2;                                ///< evaluated together
  bool has_sparse = false;                                       ///< sparse gradients: trained by SGD without momentum
};

/// Null if the mesh has no such axis.
inline const Communicator* axis_of(const Mesh& mesh, const std::string& name) {
  const bool has_axis = std::ranges::any_of(mesh.shape().axes(), [&](const MeshAxis& each) { return each.name == name; });
  return has_axis ? &mesh[name] : nullptr;
}

/// What a rank draws in a module under autograd.
inline void seed_by_place(GeneratorGuard& generator, const Settings& settings, const Part& part) {
  generator.seed(derived_seed(settings.seed, static_cast<uint64_t>(part.number())), static_cast<uint64_t>(part.place));
}

inline OneProcess as_one_process(const std::shared_ptr<torch::nn::Module>& module, const graph::Forward& forward, const Settings& settings) {
  return {module,
          [forward, settings](const Tensors& inputs, const Part& part) {
            GeneratorGuard generator;
            seed_by_place(generator, settings, part);
            return forward(inputs);
          },
          whole_tensors(*module), forward};
}

/// The captured graph of a module: random numbers depend on the operator and the row.
inline OneProcess captured(const std::shared_ptr<torch::nn::Module>& module, const graph::Forward& forward, const Tensors& example,
                           const Settings& settings) {
  auto graph = std::make_shared<graph::Graph>(graph::capture_modes(*module, forward, example).training);
  const auto bind = [module](const std::string& name) {
    for (const auto& tensors : {module->named_parameters(), module->named_buffers()}) {
      if (const at::Tensor* found = tensors.find(name)) return *found;
    }
    return at::Tensor();
  };
  auto interpreter = std::make_shared<graph::Interpreter>(*graph, bind);
  return {module,
          [graph, interpreter, settings](const Tensors& inputs, const Part& part) {
            const uint64_t seed = part.place == 0 ? settings.seed : derived_seed(settings.seed, static_cast<uint64_t>(part.place));
            const uint64_t key = pipeline::key_of_call(seed, static_cast<uint64_t>(part.update));
            return interpreter->run(inputs, {.rows = part.rows.count(), .key = key, .first = part.rows.begin});
          },
          whole_tensors(*module), forward};
}

/// Rows drawn from those of `tensors`.
inline Batch rows_of(const Tensors& inputs, const Tensors& targets, int64_t rows) {
  const at::Tensor chosen = torch::randint(inputs.front().size(0), {rows}, torch::kLong);
  Batch batch;
  for (const at::Tensor& each : inputs) batch.inputs.push_back(each.index_select(0, chosen));
  for (const at::Tensor& each : targets) batch.targets.push_back(each.index_select(0, chosen));
  return batch;
}

inline TableModel of_subject(subjects::Subject (*make_subject)(), const TensorType& type) {
  const auto make = [make_subject](const TensorType& as) {
    torch::manual_seed(11);
    subjects::Subject subject = make_subject();
    as(subject.module);
    const Batch batch = as.converted({subject.inputs, subject.targets});
    subject.inputs = batch.inputs;
    subject.targets = batch.targets;
    return subject;
  };
  TableModel model{.name = make(type.on_cpu()).name, .type = type};
  model.parallel = [make, type](const Mesh& mesh, const ParallelOptions& options) {
    auto subject = std::make_shared<subjects::Subject>(make(type));
    return Parallel{subject, parallelize(mesh, subject->module, subject->forward, type.placed(subject->inputs), options)};
  };
  model.one_process = [make, type](const Settings& settings, int stages) {
    const subjects::Subject subject = make(type.on_cpu());
    if (stages > 1) return captured(subject.module, subject.forward, subject.inputs, settings);
    return as_one_process(subject.module, subject.forward, settings);
  };
  model.batch = [subject = make(type.on_cpu())](int64_t rows) { return rows_of(subject.inputs, subject.targets, rows); };
  model.loss = [loss = make(type.on_cpu()).loss] { return Loss(loss); };
  model.draws = model.name.ends_with("dropout");
  return model;
}

/// Any module holder; @param loss of one output and one target
template <class Make>
TableModel of_holder(const std::string& name, Make make_holder, const std::function<Batch(int64_t rows)>& batch, std::function<Loss()> loss,
                     const TensorType& type) {
  const auto make = [make_holder](const TensorType& as) {
    torch::manual_seed(12);
    return as(make_holder());
  };
  TableModel model{.name = name, .type = type, .batch = [=](int64_t rows) { return type.converted(batch(rows)); }, .loss = std::move(loss)};
  const auto example = [batch = model.batch] {
    torch::manual_seed(13);
    return batch(6).inputs;
  };
  model.parallel = [make, example, type](const Mesh& mesh, const ParallelOptions& options) {
    auto holder = make(type);
    return Parallel{holder.ptr(), parallelize(mesh, *holder, type.placed(example()), options)};
  };
  model.one_process = [make, example, type](const Settings& settings, int stages) {
    auto holder = make(type.on_cpu());
    const graph::Forward forward = [holder](const Tensors& in) mutable { return graph::forward_of(*holder)(in); };
    if (stages > 1) return captured(holder.ptr(), forward, example(), settings);
    return as_one_process(holder.ptr(), forward, settings);
  };
  return model;
}

/// First and last weight are one parameter.
struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    first = register_module("first", torch::nn::Linear(torch::nn::LinearOptions(6, 9).bias(false)));
    middle = register_module("middle", torch::nn::Linear(9, 9));
    bias = register_parameter("bias", torch::randn(6));
  }
  at::Tensor forward(const at::Tensor& x) { return torch::matmul(torch::tanh(middle(torch::tanh(first(x)))), first->weight) + bias; }
  torch::nn::Linear first{nullptr};
  torch::nn::Linear middle{nullptr};
  at::Tensor bias;
};
TORCH_MODULE(Tied);

struct LstmImpl : torch::nn::Module {
  LstmImpl() {
    lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(4, 5).batch_first(true)));
    drop = register_module("drop", torch::nn::Dropout(0.3));
    last = register_module("last", torch::nn::Linear(5, 3));
  }
  at::Tensor forward(const at::Tensor& x) { return last(drop(std::get<0>(lstm(x)).select(1, x.size(1) - 1))); }
  torch::nn::LSTM lstm{nullptr};
  torch::nn::Dropout drop{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(Lstm);

/// Parts that are frozen, one of them in evaluation mode for good, and a parameter that no pass uses.
struct FrozenImpl : torch::nn::Module {
  FrozenImpl() {
    first = register_module("first", torch::nn::Linear(6, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    middle = register_module("middle", torch::nn::Linear(8, 8));
    last = register_module("last", torch::nn::Linear(8, 6));
    unused = register_parameter("unused", torch::ones(3));
    for (const at::Tensor& each : middle->parameters()) each.requires_grad_(false);
    norm->eval();
  }
  at::Tensor forward(const at::Tensor& x) { return last(torch::tanh(middle(torch::tanh(norm(first(x)))))); }
  torch::nn::Linear first{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear middle{nullptr};
  torch::nn::Linear last{nullptr};
  at::Tensor unused;
};
TORCH_MODULE(Frozen);

/// Batch norm and dropout around a residual connection.
struct ResidualImpl : torch::nn::Module {
  ResidualImpl() {
    first = register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
    second = register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 4, 3).padding(1)));
    drop = register_module("drop", torch::nn::Dropout(0.2));
    last = register_module("last", torch::nn::Linear(4 * 6 * 6, 3));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = torch::relu(norm(first(x)));
    return last(drop(torch::relu(second(y)) + y).flatten(1));
  }
  torch::nn::Conv2d first{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Conv2d second{nullptr};
  torch::nn::Dropout drop{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(Residual);

/// A bag of words, whose table has sparse gradients.
struct WordsImpl : torch::nn::Module {
  WordsImpl() {
    table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(vocabulary, 6).sparse(true)));
    first = register_module("first", torch::nn::Linear(6, 8));
    last = register_module("last", torch::nn::Linear(8, 3));
  }
  at::Tensor forward(const at::Tensor& words) { return last(torch::tanh(first(table(words).mean(1)))); }
  static constexpr int64_t vocabulary = 11;
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear first{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(Words);

/// As TorchScript: a batch norm that is frozen, and dropout.
inline torch::nn::ModuleHolder<graph::TorchScript> script() {
  torch::jit::Module norm("norm");
  norm.register_attribute("training", c10::BoolType::get(), true);
  norm.register_buffer("mean", torch::randn({8}));
  norm.register_buffer("variance", torch::rand({8}) + 0.5);
  norm.define("def forward(self, x):\n  return torch.batch_norm(x, None, None, self.mean, self.variance, self.training, 0.1, 1e-5, False)\n");
  norm.eval();
  torch::jit::Module net("net");
  net.register_attribute("training", c10::BoolType::get(), true);
  net.register_parameter("first", (torch::randn({8, 6}) / 3).requires_grad_(), /*is_buffer=*/false);
  net.register_parameter("last", (torch::randn({6, 8}) / 3).requires_grad_(), /*is_buffer=*/false);
  net.register_module("norm", norm);
  net.define(R"(
    def forward(self, x):
      y = torch.tanh(self.norm.forward(torch.matmul(x, self.first.t())))
      return torch.matmul(torch.dropout(y, 0.2, self.training), self.last.t())
  )");
  return std::make_shared<graph::TorchScript>(net);
}

/// Control flow by data.
struct OddImpl : torch::nn::Module {
  OddImpl() {
    first = register_module("first", torch::nn::Linear(6, 8));
    last = register_module("last", torch::nn::Linear(8, 6));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = first(x);
    return last(y.abs().max().item<double>() > 0.5 ? torch::tanh(y) : torch::sin(y));
  }
  torch::nn::Linear first{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(Odd);

inline Loss mean_square() { return torch::nn::MSELoss(); }
inline Batch vectors(int64_t rows) { return {{torch::randn({rows, 6}, torch::kDouble)}, {torch::randn({rows, 6}, torch::kDouble)}}; }
inline Batch classes(at::IntArrayRef shape, int64_t rows) {
  std::vector<int64_t> sizes{rows};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  const at::Tensor targets = torch::randint(3, {rows}, torch::kLong);
  if (rows > 0) targets[rows - 1].clamp_min_(1);  // a batch without any target that counts is an error
  return {{torch::randn(sizes, torch::kDouble)}, {targets}};
}
/// Class 0 does not count, so that a part may have no target at all.
inline Loss weighted_classes(at::ScalarType dtype) {
  return torch::nn::CrossEntropyLoss(torch::nn::CrossEntropyLossOptions().ignore_index(0).weight(torch::tensor({1.0, 0.3, 2.0}, dtype)));
}

/// The GPT of LibTorch's layers, as blocks, or with split layers.
struct BranchImpl : torch::nn::Module {
  explicit BranchImpl(const Communicator* tensor, double dropout) {
    constexpr int64_t width = 8;
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    drop = register_module("drop", torch::nn::Dropout(dropout));
    if (tensor == nullptr) {
      torch::nn::Linear wide(width, 12);
      torch::nn::Linear narrow(12, width);
      register_module("wide", wide);
      register_module("narrow", narrow);
      mlp = [wide, narrow](const at::Tensor& x) mutable { return narrow(torch::tanh(wide(x))); };
    } else {
      tensor_parallel::ColumnParallelLinear wide(*tensor, width, 12);
      tensor_parallel::RowParallelLinear narrow(*tensor, 12, width);
      register_module("wide", wide);
      register_module("narrow", narrow);
      mlp = [wide, narrow](const at::Tensor& x) mutable { return narrow(torch::tanh(wide(x))); };
    }
  }
  at::Tensor forward(const at::Tensor& x) { return x + drop(mlp(norm(x))); }
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Dropout drop{nullptr};
  std::function<at::Tensor(const at::Tensor&)> mlp;
};
TORCH_MODULE(Branch);

struct EndsImpl : torch::nn::Module {
  EndsImpl(int64_t in, int64_t out) : linear(register_module("linear", torch::nn::Linear(in, out))) {}
  at::Tensor forward(const at::Tensor& x) { return linear(x); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Ends);

/// A transformer with dropout. Split: by vocabulary, heads and features.
class TransformerImpl : public torch::nn::Module {
 public:
  static constexpr int64_t heads = 24;  // which 1 to 4, 6 and 8 ranks divide evenly
  static constexpr int64_t width = heads;
  static constexpr int64_t vocabulary = 7;

  /// @param tensor null: nothing is split
  explicit TransformerImpl(const Communicator* tensor) {
    if (tensor == nullptr) {
      embed_ = layer("embed", torch::nn::Embedding(vocabulary, width));
      project_ = layer("project", torch::nn::Linear(width, 3 * width));
      attended_ = layer("attended", torch::nn::Linear(width, width));
      wide_ = layer("wide", torch::nn::Linear(width, 2 * width));
      narrow_ = layer("narrow", torch::nn::Linear(2 * width, width));
    } else {
      embed_ = layer("embed", tensor_parallel::VocabParallelEmbedding(*tensor, vocabulary, width));
      project_ = layer("project", tensor_parallel::ColumnParallelLinear(*tensor, width, 3 * width));
      attended_ = layer("attended", tensor_parallel::RowParallelLinear(*tensor, width, width));
      wide_ = layer("wide", tensor_parallel::ColumnParallelLinear(*tensor, width, 2 * width));
      narrow_ = layer("narrow", tensor_parallel::RowParallelLinear(*tensor, 2 * width, width));
    }
    norm_ = layer("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    drop_ = layer("drop", torch::nn::Dropout(0.1));
    last_ = layer("last", torch::nn::Linear(width, vocabulary));
  }
  /// @param tokens [n, length] @return logits [n, vocabulary, length]
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = embed_(tokens);
    x = x + drop_(attended_(attention(project_(norm_(x)))));
    x = x + drop_(narrow_(torch::tanh(wide_(norm_(x)))));
    return last_(x).transpose(1, 2);
  }

 private:
  using Layer = std::function<at::Tensor(const at::Tensor&)>;

  template <class Holder>
  Layer layer(const std::string& name, Holder holder) {
    register_module(name, holder);
    return [holder](const at::Tensor& x) mutable { return holder->forward(x); };
  }
  /// @param projected [n, length, 3 x features of this rank's heads]: query, key and value of a head lie together
  static at::Tensor attention(const at::Tensor& projected) {
    constexpr int64_t of_head = width / heads;
    const at::Tensor by_head = projected.unflatten(-1, {-1, 3 * of_head}).transpose(1, 2);
    const auto part = [&](int64_t i) { return by_head.narrow(-1, i * of_head, of_head); };
    return torch::softmax(part(0).matmul(part(1).transpose(-1, -2)), -1).matmul(part(2)).transpose(1, 2).flatten(-2);
  }

  Layer embed_, project_, attended_, wide_, narrow_, norm_, drop_, last_;
};
TORCH_MODULE(Transformer);

inline TableModel of_split_module(const TensorType& type) {
  const auto make = [](const Communicator* tensor, const TensorType& as) {
    torch::manual_seed(12);
    return as(Transformer(tensor));
  };
  const auto tokens = [](int64_t rows) {
    const auto draw = [&] { return torch::randint(TransformerImpl::vocabulary, {rows, 5}, torch::kLong); };
    return Batch{{draw()}, {draw()}};
  };
  TableModel model{.name = "split module", .kind = Kind::split_module, .type = type, .batch = tokens, .draws = true};
  model.loss = [] { return Loss(torch::nn::CrossEntropyLoss()); };
  model.parallel = [=](const Mesh& mesh, const ParallelOptions& options) {
    auto net = make(axis_of(mesh, "tensor"), type);
    return Parallel{net.ptr(), parallelize(mesh, *net, type.placed(tokens(6).inputs), options)};
  };
  model.one_process = [=](const Settings& settings, int stages) {
    auto net = make(nullptr, type.on_cpu());
    const graph::Forward forward = [net](const Tensors& in) mutable { return graph::forward_of(*net)(in); };
    return stages > 1 ? captured(net.ptr(), forward, tokens(6).inputs, settings) : as_one_process(net.ptr(), forward, settings);
  };
  return model;
}

inline std::vector<pipeline::BlockFactory> branches(const Communicator* tensor, double dropout, const TensorType& type) {
  std::vector<pipeline::BlockFactory> blocks;
  blocks.push_back(pipeline::block([=] { return type(Ends(6, 8)); }));
  for (int i = 0; i < 6; ++i) blocks.push_back(pipeline::block([=] { return type(Branch(tensor, dropout)); }));
  blocks.push_back(pipeline::block([=] { return type(Ends(8, 6)); }));
  return blocks;
}

/// Blocks run as they are: their backward passes have no halves. @param may_have_several whether a rank may have several of their stages; random
/// numbers depend on the number of stages
inline ParallelOptions for_blocks(ParallelOptions options, bool may_have_several) {
  using enum pipeline::ScheduleKind;
  const bool is_interleaved = options.schedule == interleaved && may_have_several;
  if (options.schedule != gpipe && !is_interleaved) options.schedule = one_forward_one_backward;
  return options;
}

inline OneProcess blocks_in_one_process(const Settings& settings, int stages, double dropout, const TensorType& type) {
  torch::manual_seed(14);
  auto module = std::make_shared<torch::nn::Module>();
  std::vector<pipeline::Block> blocks;
  for (const pipeline::BlockFactory& make : branches(nullptr, dropout, type)) {
    blocks.push_back(make());
    module->register_module(std::to_string(blocks.size() - 1), blocks.back().module);
  }
  const auto forward = [blocks, settings, stages](const Tensors& inputs, const Part& part) {
    at::Tensor x = inputs.front();
    GeneratorGuard generator;
    if (stages == 1) seed_by_place(generator, settings, part);
    for (int stage = 0; stage < stages; ++stage) {
      const uint64_t seed = part.place == 0 ? settings.seed : derived_seed(settings.seed, static_cast<uint64_t>(part.place));
      if (stages > 1) pipeline::seed_with(generator, {seed, static_cast<uint64_t>(part.update), static_cast<int>(part.micro_batch), stage, 0});
      const pipeline::Rows mine = pipeline::part_of({0, static_cast<int64_t>(blocks.size())}, stages, stage);
      for (int64_t i = mine.begin; i < mine.end; ++i) x = blocks[static_cast<size_t>(i)].forward(x);
    }
    return Tensors{x};
  };
  const auto evaluate = [blocks](const Tensors& inputs) {
    at::Tensor x = inputs.front();
    for (const pipeline::Block& each : blocks) x = each.forward(x);
    return Tensors{x};
  };
  return {module, forward, whole_tensors(*module), evaluate};
}

inline TableModel of_blocks(const std::string& name, bool split, double dropout, const TensorType& type) {
  TableModel model{.name = name, .kind = split ? Kind::split : Kind::blocks, .type = type, .loss = mean_square, .draws = dropout > 0};
  model.batch = [type](int64_t rows) { return type.converted(vectors(rows)); };
  model.parallel = [split, dropout, type](const Mesh& mesh, const ParallelOptions& options) {
    const Tensors example = type.placed(type.converted(vectors(2)).inputs);
    torch::manual_seed(14);
    return Parallel{
        nullptr, parallelize(mesh, branches(split ? axis_of(mesh, "tensor") : nullptr, dropout, type), example, for_blocks(options, dropout == 0))};
  };
  model.one_process = [dropout, type](const Settings& settings, int stages) {
    return blocks_in_one_process(settings, stages, dropout, type.on_cpu());
  };
  return model;
}

/// Exact iterations: as many as the second level has layers.
inline layer_parallel::LayerParallelOptions exact_layers() {
  return {.coarsening = 2, .min_coarse = 1, .forward = {.iterations = 3}, .backward = {.iterations = 3}, .seed = 8};
}
/// A layer of an ODE block.
struct StepImpl : torch::nn::Module {
  StepImpl(const Communicator* tensor, double dropout) : branch(register_module("branch", Branch(tensor, dropout))) {}
  at::Tensor forward(const at::Tensor& u) { return torch::tanh(branch(u)); }
  Branch branch;
};
TORCH_MODULE(Step);

inline std::vector<layer_parallel::Block> layer_blocks(const Communicator* tensor, double dropout, const TensorType& type) {
  const auto plain = [=](int64_t in, int64_t out) { return layer_parallel::block([=] { return type(Ends(in, out)); }, 1); };
  const auto ode = [=](int64_t layers) {
    return layer_parallel::block([=] { return type(Step(tensor, dropout)); }, layers, {.random = dropout > 0});
  };
  return {plain(6, 8), ode(5), plain(8, 8), ode(4), plain(8, 6)};
}

inline TableModel of_layers(const std::string& name, bool split, double dropout, const TensorType& type) {
  TableModel model{.name = name, .kind = split ? Kind::split_layers : Kind::of_layers, .type = type, .loss = mean_square, .draws = dropout > 0};
  model.batch = [type](int64_t rows) { return type.converted(vectors(rows)); };
  model.most_stages = 5;
  model.parallel = [split, dropout, type](const Mesh& mesh, const ParallelOptions& options) {
    const Communicator* tensor = split ? axis_of(mesh, "tensor") : nullptr;
    const Tensors example = type.placed(type.converted(vectors(2)).inputs);
    return Parallel{nullptr, parallelize(mesh, layer_blocks(tensor, dropout, type), example, exact_layers(), for_blocks(options, false))};
  };
  model.one_process = [dropout, type](const Settings& /*settings*/, int /*stages*/) {
    const std::vector<layer_parallel::Block> blocks = layer_blocks(nullptr, dropout, type.on_cpu());
    auto net = std::make_shared<layer_parallel::SerialNetwork>(blocks, exact_layers());
    std::vector<WholeTensor> tensors;
    for (size_t block = 0; block < blocks.size(); ++block) {
      const auto& layers = net->layers(block);
      for (const auto& each : layers.front().module->named_parameters()) {
        WholeTensor whole{.name = std::to_string(block) + "." + each.key(), .is_stacked = layers.size() > 1};
        for (const layer_parallel::Layer& layer : layers) whole.layers.push_back(layer.module->named_parameters()[each.key()]);
        tensors.push_back(std::move(whole));
      }
    }
    const auto forward = [net](const Tensors& inputs, const Part& part) {
      net->set_calls(part.number());
      net->set_replica(part.place);
      return Tensors{net->forward(inputs.front())};
    };
    return OneProcess{net, forward, std::move(tensors), [net](const Tensors& inputs) { return Tensors{net->forward(inputs.front())}; }};
  };
  return model;
}

inline std::vector<TableModel> table_models(const TensorType& type = {}) {
  const auto weighted = [dtype = type.dtype] { return weighted_classes(dtype); };
  std::vector<TableModel> models;
  for (const auto make : subjects::all) models.push_back(of_subject(make, type));
  models.push_back(of_subject(subjects::gpt_with_dropout, type));
  for (TableModel& each : models) {
    const std::map<std::string, int> fewer{{"one operator", 1}, {"embedding", 5},        {"loss inside", 6},
                                           {"dropout", 6},      {"shared parameter", 7}, {"convolutional, batch norm", 7}};
    if (fewer.contains(each.name)) each.most_stages = fewer.at(each.name);
  }
  models.push_back(of_holder("tied", [] { return Tied(); }, vectors, mean_square, type));
  models.back().most_stages = 7;
  models.push_back(of_holder(
      "residual", [] { return Residual(); }, [](int64_t rows) { return classes({1, 6, 6}, rows); },
      [] { return Loss(torch::nn::CrossEntropyLoss()); }, type));
  models.back().draws = true;
  models.push_back(of_holder("lstm", [] { return Lstm(); }, [](int64_t rows) { return classes({5, 4}, rows); }, weighted, type));
  models.back().draws = true;
  models.back().most_stages = 4;
  models.push_back(of_holder("frozen", [] { return Frozen(); }, vectors, mean_square, type));
  models.back().most_stages = 7;
  models.push_back(of_holder(
      "ignored targets", [] { return torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::Tanh(), torch::nn::Linear(8, 3)); },
      [](int64_t rows) { return classes({4}, rows); }, weighted, type));
  models.back().most_stages = 3;
  models.push_back(of_holder("flow by data", [] { return Odd(); }, vectors, mean_square, type));
  models.back().kind = Kind::odd;
  models.push_back(of_holder("torchscript", script, vectors, mean_square, type));
  models.back().draws = true;
  models.back().most_stages = 5;
  models.push_back(of_blocks("blocks", false, 0.25, type));
  models.push_back(of_blocks("split blocks", true, 0, type));
  models.push_back(of_blocks("split blocks, dropout", true, 0.25, type));
  models.back().draws = true;
  models.push_back(of_split_module(type));
  models.push_back(of_layers("layers", false, 0, type));
  models.push_back(of_layers("layers, dropout", false, 0.25, type));
  models.push_back(of_layers("split layers in parallel", true, 0, type));
  const auto words = [](int64_t rows) {
    return Batch{{torch::randint(WordsImpl::vocabulary, {rows, 4}, torch::kLong)}, {torch::randint(3, {rows}, torch::kLong)}};
  };
  models.push_back(of_holder("sparse gradients", [] { return Words(); }, words, [] { return Loss(torch::nn::CrossEntropyLoss()); }, type));
  models.back().most_stages = 5;
  models.back().has_sparse = true;
  return models;
}

}  // namespace tw::testing::mesh
