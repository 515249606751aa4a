// SPDX-License-Identifier: Apache-2.0
// splits/step: a training step of a transformer block whose operators are divided along `tensor` by splits that experiments found, against one rank,
// and against the same block with Megatron's split layers written by hand. splits/found: seconds until the block is divided.
// Two contestants of two ranks: 4 ranks.
#include "measure.hpp"

#include <tw/parallel_model.hpp>
#include <tw/tensor_parallel.hpp>

namespace {

using at::Tensor;
using tw::benchmark::Contest;

constexpr int64_t width = 512;
constexpr int64_t of_head = width / 8;

/// @param ranks null: nothing is split
struct BlockImpl : torch::nn::Module {
  using Layer = std::function<Tensor(const Tensor&)>;

  explicit BlockImpl(const tw::Communicator* ranks) {
    const auto wide = [&](const std::string& name, int64_t features) {
      return ranks == nullptr ? layer(name, torch::nn::Linear(width, features))
                              : layer(name, tw::tensor_parallel::ColumnParallelLinear(*ranks, width, features));
    };
    const auto narrow = [&](const std::string& name, int64_t features) {
      return ranks == nullptr ? layer(name, torch::nn::Linear(features, width))
                              : layer(name, tw::tensor_parallel::RowParallelLinear(*ranks, features, width));
    };
    before = layer("before", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    query = wide("query", width);
    key = wide("key", width);
    value = wide("value", width);
    attended = narrow("attended", width);
    between = layer("between", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    up = wide("up", 4 * width);
    down = narrow("down", 4 * width);
  }
  template <class Holder>
  Layer layer(const std::string& name, Holder holder) {
    register_module(name, holder);
    return [holder](const Tensor& x) mutable { return holder->forward(x); };
  }
  Tensor forward(const Tensor& x) {
    const Tensor y = before(x);
    const auto heads = [](const Tensor& t) { return t.unflatten(-1, {-1, of_head}).transpose(1, 2); };
    const Tensor a = at::scaled_dot_product_attention(heads(query(y)), heads(key(y)), heads(value(y)), {}, 0, /*is_causal=*/true);
    const Tensor z = x + attended(a.transpose(1, 2).flatten(-2));
    return z + down(torch::gelu(up(between(z))));
  }
  Layer before, query, key, value, attended, between, up, down;
};
TORCH_MODULE(Block);

enum class Baseline { one_rank, by_hand };

void compare_block(const Contest& contest, int64_t batch, int64_t length, Baseline baseline) {
  torch::manual_seed(1);
  const Tensor x = torch::randn({batch, length, width});
  const Tensor y = torch::randn({batch, length, width});
  const tw::Loss loss = torch::nn::MSELoss();
  const tw::Mesh mesh(contest.comm(), {{"tensor", -1}});
  const bool alone = !contest.is_ours() && baseline == Baseline::one_rank;
  const bool by_hand = !contest.is_ours() && baseline == Baseline::by_hand;
  Block block(by_hand ? &mesh["tensor"] : nullptr);
  std::optional<tw::ParallelModel> model;
  std::vector<Tensor> parameters = block->parameters();
  if (!alone) {
    const tw::Stopwatch watch;
    model.emplace(tw::parallelize(mesh, *block, {x}));
    parameters = model->parameters();
    if (contest.is_ours() && contest.comm().rank() == 0) {
      std::cout << nlohmann::json{{"benchmark", "splits/found"}, {"case", tw::concat(batch, "x", length)}, {"seconds", watch.elapsed().count()}}
                << '\n'
                << std::flush;
      if (baseline == Baseline::one_rank) std::cerr << model->explain();
    }
  }
  torch::optim::SGD sgd(parameters, 1e-3);
  tw::benchmark::Case of{.benchmark = "splits/step",
                         .name = tw::concat(batch, "x", length),
                         .baseline = baseline == Baseline::one_rank ? "one_rank" : "split_layers",
                         .steps = 2};
  of.step = [&] {
    if (alone && contest.comm().rank() > 0) return;  // the other core has nothing to do
    sgd.zero_grad();
    if (model) {
      (void)model->train_step(x, y, loss);
    } else {
      torch::mse_loss(block->forward(x), y).backward();
    }
    sgd.step();
  };
  tw::benchmark::compare(contest, of);
}

void measure_all(const Contest& contest) {
  for (const Baseline baseline : {Baseline::one_rank, Baseline::by_hand}) {
    compare_block(contest, 8, 128, baseline);
    compare_block(contest, 1, 1024, baseline);
  }
}

}  // namespace

int main(int argc, char** argv) { return tw::benchmark::run(argc, argv, measure_all); }
