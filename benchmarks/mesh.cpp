// SPDX-License-Identifier: Apache-2.0
// mesh/step: a training step of parallelize() on a mesh of one axis, against the class that does the same: DataParallel, FullySharded, Pipeline, and
// a plain loop on one rank. mesh/axes_of_one: what axes of one rank cost. mesh/actions: what an action of a schedule costs. Two contestants of two
// ranks: 4 ranks.
#include "measure.hpp"
#include "trainees.hpp"

#include <tw/data_parallel.hpp>
#include <tw/parallel_model.hpp>
#include <tw/pipeline.hpp>

namespace {

using tw::benchmark::Contest;

struct Net {
  std::string name;
  int steps;
  std::shared_ptr<torch::nn::Module> module;
  tw::graph::Forward forward;
  at::Tensor inputs;
  at::Tensor targets;
};

template <class Holder>
Net net_of(const std::string& name, int steps, Holder holder, const at::Tensor& inputs) {
  const auto forward = [holder](const std::vector<at::Tensor>& in) mutable {
    const at::Tensor out = holder->forward(in[0]);
    return std::vector<at::Tensor>{out.dim() == 3 ? out.mean(1).narrow(1, 0, 10) : out};
  };
  return {name, steps, holder.ptr(), forward, inputs, torch::randint(10, {inputs.size(0)}, torch::kLong)};
}

std::vector<Net> nets() {
  torch::manual_seed(1);
  return {net_of("mlp_16", 200, tw::models::Mlp(std::vector<int64_t>{16, 16, 16, 10}), torch::randn({32, 16})),
          net_of("lenet", 10, tw::models::LeNet(), torch::randn({64, 1, 28, 28})),
          net_of("mlp_8e6", 5, tw::models::Mlp(std::vector<int64_t>{1024, 1600, 1600, 1600, 800, 10}), torch::randn({32, 1024})),
          net_of("gpt_12", 3, tw::models::Gpt(tw::models::GptOptions{.vocabulary = 256, .context = 64, .width = 128, .heads = 4, .blocks = 12}),
                 torch::randint(256, {4, 64}, torch::kLong))};
}

/// What the baseline does for the axis.
enum class Axis { none, data, shard };

void compare_net(const Contest& contest, const Net& net, Axis axis) {
  const tw::Communicator alone = contest.comm().split(contest.comm().rank(), 0);
  const tw::Communicator& comm = axis == Axis::none ? alone : contest.comm();
  const char* const names[] = {"none", "data", "shard"};
  const char* const baselines[] = {"plain_loop", "data_parallel", "fully_sharded"};
  tw::benchmark::Case of{.benchmark = "mesh/step",
                         .name = net.name + "_" + names[static_cast<int>(axis)],
                         .baseline = baselines[static_cast<int>(axis)],
                         .steps = net.steps};
  const tw::Mesh mesh(comm, {{axis == Axis::shard ? "shard" : "data", -1}});
  const tw::Loss loss = torch::nn::CrossEntropyLoss();
  std::optional<tw::ParallelModel> ours;
  std::optional<tw::DataParallel> data;
  std::optional<tw::FullySharded> sharded;
  std::vector<at::Tensor> parameters = net.module->parameters();
  if (contest.is_ours()) {
    ours.emplace(tw::parallelize(mesh, net.module, net.forward, {net.inputs}));
    parameters = ours->parameters();
  } else if (axis == Axis::data) {
    data.emplace(comm, *net.module, tw::DataParallelOptions{.reduction = tw::Reduction::mean});
  } else if (axis == Axis::shard) {
    sharded.emplace(comm, *net.module, tw::FullyShardedOptions{.reduction = tw::Reduction::mean});
    parameters = sharded->slices();
  }
  torch::optim::SGD sgd(parameters, 1e-3);
  double last = 0;
  of.step = [&] {
    sgd.zero_grad();
    if (ours) {
      last = ours->train_step(net.inputs, net.targets, loss);
    } else {
      const at::Tensor value = torch::cross_entropy_loss(net.forward({net.inputs})[0], net.targets);
      value.backward();
      last = value.item<double>();
    }
    sgd.step();
  };
  tw::benchmark::compare(contest, of);
}

struct LayerImpl : torch::nn::Module {
  LayerImpl() : linear(register_module("linear", torch::nn::Linear(512, 512))) {}
  at::Tensor forward(const at::Tensor& x) { return torch::tanh(linear(x)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Layer);

void compare_stages(const Contest& contest, int64_t batch) {
  constexpr int micro_batches = 8;
  const std::vector<tw::pipeline::BlockFactory> blocks(16, tw::pipeline::block([] { return Layer(); }));
  const at::Tensor x = torch::randn({batch, 512});
  const at::Tensor y = torch::randn({batch, 512});
  const tw::Mesh mesh(contest.comm(), {{"stage", -1}});
  const tw::Loss loss = torch::nn::MSELoss();
  torch::manual_seed(1);
  std::optional<tw::ParallelModel> ours;
  std::optional<tw::pipeline::Pipeline> pipeline;
  std::vector<at::Tensor> parameters;
  if (contest.is_ours()) {
    ours.emplace(tw::parallelize(mesh, blocks, {x}, {.micro_batches = micro_batches}));
    parameters = ours->parameters();
  } else {
    const auto schedule = tw::pipeline::one_forward_one_backward(contest.comm().size(), micro_batches);
    pipeline.emplace(contest.comm(), blocks, tw::pipeline::PipelineOptions{.schedule = schedule});
    parameters = pipeline->parameters();
  }
  torch::optim::SGD sgd(parameters, 1e-3);
  tw::benchmark::Case of{.benchmark = "mesh/step", .name = tw::concat("blocks_stage_", batch), .baseline = "pipeline", .steps = 3};
  of.step = [&] {
    sgd.zero_grad();
    if (ours) (void)ours->train_step(x, y, loss);
    if (pipeline) (void)pipeline->run(x, y, [](const at::Tensor& a, const at::Tensor& b) { return torch::mse_loss(a, b); });
    sgd.step();
  };
  tw::benchmark::compare(contest, of);
}

/// The same mesh with and without axes of one rank.
void compare_short_axes(const Contest& contest, const Net& net) {
  std::vector<tw::MeshAxis> axes{{"data", -1}};
  if (contest.is_ours()) axes.insert(axes.end(), {{"shard", 1}, {"stage", 1}, {"tensor", 1}});
  tw::ParallelModel model = tw::parallelize(tw::Mesh(contest.comm(), axes), net.module, net.forward, {net.inputs});
  const tw::Loss loss = torch::nn::CrossEntropyLoss();
  torch::optim::SGD sgd(model.parameters(), 1e-3);
  tw::benchmark::Case of{.benchmark = "mesh/axes_of_one", .name = net.name, .baseline = "data", .steps = net.steps};
  of.step = [&] {
    sgd.zero_grad();
    (void)model.train_step(net.inputs, net.targets, loss);
    sgd.step();
  };
  tw::benchmark::compare(contest, of);
}

/// What actions cost: 64 micro-batches of one row on one stage, against the same passes in a loop. The difference of the times over 128 actions.
void compare_actions(const Contest& contest) {
  constexpr int micro_batches = 64;
  const tw::Communicator alone = contest.comm().split(contest.comm().rank(), 0);
  const at::Tensor x = torch::randn({micro_batches, 16});
  const at::Tensor y = torch::randn({micro_batches, 16});
  const auto mean_square = [](const at::Tensor& a, const at::Tensor& b) { return torch::mse_loss(a, b); };
  torch::nn::Linear net(16, 16);
  tw::pipeline::Pipeline pipeline(alone, {tw::pipeline::block([&] { return net; })},
                                  tw::pipeline::PipelineOptions{.schedule = tw::pipeline::one_forward_one_backward(1, micro_batches)});
  tw::benchmark::Case of{.benchmark = "mesh/actions", .name = "64_micro_batches", .baseline = "loop", .steps = 20};
  of.step = [&] {
    net->zero_grad();
    if (contest.is_ours()) {
      (void)pipeline.run(x, y, mean_square);
    } else {
      for (int64_t i = 0; i < micro_batches; ++i) (mean_square(net(x.narrow(0, i, 1)), y.narrow(0, i, 1)) / micro_batches).backward();
    }
  };
  tw::benchmark::compare(contest, of);
}

void measure_all(const Contest& contest) {
  for (const Axis axis : {Axis::none, Axis::data, Axis::shard}) {
    for (const Net& net : nets()) compare_net(contest, net, axis);
  }
  for (const int64_t batch : {64, 1024}) compare_stages(contest, batch);
  for (const Net& net : nets()) compare_short_axes(contest, net);
  compare_actions(contest);
}

}  // namespace

int main(int argc, char** argv) { return tw::benchmark::run(argc, argv, measure_all); }
