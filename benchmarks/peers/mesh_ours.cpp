// SPDX-License-Identifier: Apache-2.0
// Prints the milliseconds of a training step of a small GPT on a mesh of one axis, and rank 0's peak memory in MiB. With "alone" each rank computes
// what it computes in that step, without communication. compare_mesh.sh runs it in turns with torch_mesh.py.
#include "../measure.hpp"

#include <torch/torch.h>

#include <fstream>
#include <iostream>
#include <string>
#include <tw/parallel_model.hpp>
#include <tw/tensor_parallel.hpp>

namespace {

using torch::nn::Module;
using Layer = std::function<at::Tensor(const at::Tensor&)>;

constexpr int64_t vocabulary = 256;
constexpr int64_t context = 64;
constexpr int64_t width = 128;
constexpr int64_t heads = 4;
constexpr int64_t depth = 12;
constexpr int64_t classes = 10;
constexpr int64_t micro_batches = 4;  // along `stage`

template <class Holder>
Layer layer(Module& owner, const std::string& name, Holder holder) {
  owner.register_module(name, holder);
  return [holder](const at::Tensor& x) mutable { return holder->forward(x); };
}

struct EmbeddingImpl : Module {
  EmbeddingImpl() : token(layer(*this, "token", torch::nn::Embedding(vocabulary, width))) {
    place = layer(*this, "place", torch::nn::Embedding(context, width));
  }
  at::Tensor forward(const at::Tensor& tokens) { return token(tokens) + place(torch::arange(tokens.size(1))); }
  Layer token;
  Layer place;
};
TORCH_MODULE(Embedding);

struct BlockImpl : Module {
  /// @param parts ranks along `tensor`, which have a slice each of wide layers. @param tensor null: the slices do not communicate
  BlockImpl(int64_t parts_of_layers, const tw::Communicator* tensor) : parts(parts_of_layers) {
    norm1 = layer(*this, "norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    norm2 = layer(*this, "norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    const auto column = [&](const char* name, int64_t out) {
      return tensor != nullptr ? layer(*this, name, tw::tensor_parallel::ColumnParallelLinear(*tensor, width, out))
                               : layer(*this, name, torch::nn::Linear(width, out / parts));
    };
    const auto row = [&](const char* name, int64_t in) {
      return tensor != nullptr ? layer(*this, name, tw::tensor_parallel::RowParallelLinear(*tensor, in, width))
                               : layer(*this, name, torch::nn::Linear(in / parts, width));
    };
    attention = column("attention", 3 * width);
    attended = row("attended", width);
    wide = column("wide", 4 * width);
    narrow = row("narrow", 4 * width);
  }
  at::Tensor forward(const at::Tensor& x) {
    const int64_t n = x.size(0);
    const int64_t length = x.size(1);
    const at::Tensor qkv = attention(norm1(x)).view({n, length, 3, heads / parts, width / heads}).permute({2, 0, 3, 1, 4});
    const at::Tensor y = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0, /*is_causal=*/true).transpose(1, 2);
    const at::Tensor z = x + attended(y.reshape({n, length, width / parts}));
    return z + narrow(at::gelu(wide(norm2(z))));
  }
  int64_t parts;
  Layer norm1, norm2, attention, attended, wide, narrow;
};
TORCH_MODULE(Block);

struct HeadImpl : Module {
  HeadImpl() {
    norm = layer(*this, "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    linear = layer(*this, "linear", torch::nn::Linear(width, classes));
  }
  at::Tensor forward(const at::Tensor& x) { return linear(norm(x).mean(1)); }
  Layer norm;
  Layer linear;
};
TORCH_MODULE(Head);

std::vector<tw::pipeline::BlockFactory> gpt(int64_t parts, const tw::Communicator* tensor) {
  using tw::pipeline::block;
  std::vector<tw::pipeline::BlockFactory> blocks{block([] { return Embedding(); })};
  for (int64_t i = 0; i < depth; ++i) blocks.push_back(block([=] { return Block(parts, tensor); }));
  blocks.push_back(block([] { return Head(); }));
  return blocks;
}

/// A step of this rank's blocks, part by part of a batch.
std::function<void()> step_alone(const std::string& axis, const tw::Communicator& comm, const at::Tensor& tokens, const at::Tensor& targets) {
  const bool staged = axis == "stage";
  const bool first = !staged || comm.rank() == 0;
  const bool last = !staged || comm.rank() == comm.size() - 1;
  const auto factories = gpt(axis == "tensor" ? comm.size() : 1, nullptr);
  std::vector<tw::pipeline::Block> blocks;
  std::vector<at::Tensor> parameters;
  const auto mine = tw::pipeline::part_of({0, static_cast<int64_t>(factories.size())}, staged ? comm.size() : 1, staged ? int{comm.rank()} : 0);
  for (int64_t i = mine.begin; i < mine.end; ++i) {
    blocks.push_back(factories[static_cast<size_t>(i)]());
    for (const at::Tensor& each : blocks.back().module->parameters()) parameters.push_back(each);
  }
  auto sgd = std::make_shared<torch::optim::SGD>(parameters, 1e-3);
  return [=] {
    sgd->zero_grad();
    const int64_t parts = staged ? micro_batches : 1;
    for (int64_t m = 0; m < parts; ++m) {
      const auto rows = tw::pipeline::part_of({0, tokens.size(0)}, parts, m);
      at::Tensor x = first ? tokens.narrow(0, rows.begin, rows.count()) : torch::ones({rows.count(), context, width}, torch::requires_grad());
      for (const tw::pipeline::Block& each : blocks) x = each.forward(x);
      if (last) {
        torch::cross_entropy_loss(x, targets.narrow(0, rows.begin, rows.count())).backward();
      } else {
        x.backward(torch::ones_like(x));
      }
    }
    sgd->step();
  };
}

std::function<void()> step_together(const std::string& axis, const tw::Communicator& comm, const at::Tensor& tokens, const at::Tensor& targets) {
  const tw::Mesh mesh(comm, {{axis, -1}});
  const auto blocks = axis == "tensor" ? gpt(comm.size(), &mesh["tensor"]) : gpt(1, nullptr);
  auto model = std::make_shared<tw::ParallelModel>(tw::parallelize(mesh, blocks, {tokens}, {.micro_batches = axis == "stage" ? micro_batches : 1}));
  auto sgd = std::make_shared<torch::optim::SGD>(model->parameters(), 1e-3);
  return [=, loss = tw::Loss(torch::nn::CrossEntropyLoss())] {
    sgd->zero_grad();
    (void)model->train_step(tokens, targets, loss);
    sgd->step();
  };
}

/// The most memory that this process has had.
std::string peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    status >> word;
    return std::to_string(std::stoll(word) / 1024);
  }
  return "0";
}

}  // namespace

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  const tw::Communicator comm = mpi.world().dup();
  TW_EXPECTS(argc == 3, "bench_peers_mesh data|shard|stage|tensor together|alone");
  torch::set_num_threads(1);
  const std::string axis = argv[1];
  const int64_t rows = axis == "data" || axis == "shard" ? 4 : 8;
  torch::manual_seed(1);
  const at::Tensor tokens = torch::randint(vocabulary, {rows, context}, torch::kLong);
  const at::Tensor targets = torch::randint(classes, {rows}, torch::kLong);
  const auto step = std::string(argv[2]) == "alone" ? step_alone(axis, comm, tokens, targets) : step_together(axis, comm, tokens, targets);
  std::vector<double> ms;
  for (int round = -3; round < 10; ++round) {
    comm.barrier();
    const tw::Stopwatch watch;
    for (int i = 0; i < 3; ++i) step();
    comm.barrier();
    if (round >= 0) ms.push_back(1e3 * watch.elapsed().count() / 3);
  }
  if (comm.rank() == 0) std::cout << tw::benchmark::percentile(ms, 0.5) << ' ' << peak_mib() << std::endl;
}
