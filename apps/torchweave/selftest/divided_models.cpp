// SPDX-License-Identifier: Apache-2.0
// Strategies in which ranks hold one model together, compared with one process that has all of it.
#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <tw/base/concat.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/parallel_model.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/state/module_state.hpp>
#include <tw/tensor_parallel/linear.hpp>

#include "comparison.hpp"
#include "training.hpp"

namespace tw::tool::selftest {
namespace {

constexpr int64_t sample_count = 12;
constexpr int64_t input_width = 5;
constexpr int64_t inner_width = 6;
constexpr int64_t output_width = 3;

/// Two linear layers. Both kinds have the same names of parameters and draw the same values.
template <class First, class Second>
struct TwoLayers : torch::nn::Module {
  TwoLayers(First first_layer, Second second_layer)
      : first(register_module("first", std::move(first_layer))), second(register_module("second", std::move(second_layer))) {
    to(at::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) { return second(first(x).tanh()); }
  First first;
  Second second;
};

/// A network of `layers` layers of one shape between two others.
std::vector<layer_parallel::Block> blocks_of(int64_t layers) {
  return {layer_parallel::block([] { return Dense(input_width, inner_width); }, 1),
          layer_parallel::block([] { return Dense(inner_width, inner_width); }, layers),
          layer_parallel::block([] { return Dense(inner_width, output_width); }, 1)};
}

/// `steps` steps of gradient descent of this rank's part of a model. @param pass forward and backward pass with all samples
template <class Pass>
void train_part(const std::vector<at::Tensor>& parameters, const Conditions& conditions, const Pass& pass) {
  torch::optim::SGD sgd(parameters, learning_rate);
  for (int step = 0; step < steps; ++step) {
    sgd.zero_grad();
    pass(samples_of(step, sample_count, input_width, output_width, conditions.is_wrong_here));
    sgd.step();
  }
}

/// As LayerParallel::shards() names and stacks them.
std::vector<NamedTensor> stacked_parameters(const layer_parallel::SerialNetwork& net) {
  std::vector<NamedTensor> all;
  for (const std::string name : {"linear.weight", "linear.bias"}) {
    for (size_t block = 0; block < 3; ++block) {
      std::vector<at::Tensor> of_layers;
      for (const layer_parallel::Layer& layer : net.layers(block)) of_layers.push_back(layer.module->named_parameters()[name].detach());
      all.push_back({concat(block, '.', name), of_layers.size() > 1 ? at::stack(of_layers) : of_layers.front()});
    }
  }
  return all;
}

}  // namespace

Outcome compare_tensor_parallel(const Communicator& comm, const Conditions& conditions) {
  const Communicator group = group_of(comm);
  const int64_t hidden = 4 * group.size() + 1;  // slices of unequal sizes
  torch::manual_seed(5);
  TwoLayers reference(torch::nn::Linear(input_width, hidden), torch::nn::Linear(hidden, output_width));
  torch::manual_seed(5);
  TwoLayers net(tensor_parallel::ColumnParallelLinear(group, input_width, hidden), tensor_parallel::RowParallelLinear(group, hidden, output_width));
  train(reference.parameters(), sample_count, input_width, output_width, [&](const at::Tensor& x) { return reference.forward(x); });

  train_part(net.parameters(), conditions, [&](const Samples& all) { loss_of(net.forward(all.inputs), all.targets).backward(); });
  Comparison comparison;
  comparison.expect_near(tensor_parallel::sliced(net, module_shards(net)), named_parameters(reference), tolerance(hidden));
  return comparison.outcome();
}

Outcome compare_pipeline(const Communicator& comm, const Conditions& conditions) {
  const Communicator group = group_of(comm);
  std::vector<int64_t> widths(static_cast<size_t>(group.size()) + 2, inner_width);  // one layer more than ranks
  widths.front() = input_width;
  widths.back() = output_width;
  Chain reference(widths);
  train(reference.parameters(), sample_count, input_width, output_width, [&](const at::Tensor& x) { return reference.forward(x); });

  std::vector<pipeline::BlockFactory> blocks;
  for (size_t i = 1; i < widths.size(); ++i) blocks.push_back(pipeline::block([from = widths[i - 1], to = widths[i]] { return Dense(from, to); }));
  torch::manual_seed(5);  // as Chain
  pipeline::Pipeline net(group, blocks, {.schedule = pipeline::one_forward_one_backward(group.size(), 3)});
  train_part(net.parameters(), conditions, [&](const Samples& all) { net.run(all.inputs, all.targets, loss_of); });
  Comparison comparison;
  comparison.expect_near(net.shards(), named_parameters(reference), tolerance(sample_count));
  return comparison.outcome();
}

// In two stages where the number of ranks is even; the rest of the ranks have other samples.
Outcome compare_parallelize(const Communicator& comm, const Conditions& conditions) {
  const Communicator group = group_of(comm);
  const Mesh mesh(group, {{"data", -1}, {"stage", group.size() % 2 == 0 ? 2 : 1}});
  const std::vector<int64_t> widths{input_width, inner_width, inner_width, output_width};
  const auto net = std::make_shared<Chain>(widths);
  ParallelModel model =
      tw::parallelize(mesh, net, [net](const std::vector<at::Tensor>& x) { return std::vector<at::Tensor>{net->forward(x.front())}; },
                      {samples_of(0, 2, input_width, output_width).inputs}, {.micro_batches = 2});
  const int64_t samples = sample_count * model.places();
  Chain reference(widths);
  train(reference.parameters(), samples, input_width, output_width, [&](const at::Tensor& x) { return reference.forward(x); });

  torch::optim::SGD sgd(model.parameters(), learning_rate);
  for (int step = 0; step < steps; ++step) {
    const Samples mine = samples_of(step, samples, input_width, output_width, conditions.is_wrong_here).part(model.place(), model.places());
    sgd.zero_grad();
    model.train_step(mine.inputs, mine.targets, loss_of);
    sgd.step();
  }
  Comparison comparison;
  comparison.expect_near(model.shards(), named_parameters(reference), tolerance(samples));
  return comparison.outcome();
}

// With as many iterations as layers, the result is that of one process, except for the order of sums.
Outcome compare_layers_in_parallel(const Communicator& comm, const Conditions& conditions) {
  const Communicator group = group_of(comm);
  const int layers = 4 * group.size() + 1;
  const layer_parallel::LayerParallelOptions options{
      .coarsening = 2, .min_coarse = 1, .forward = {.iterations = layers}, .backward = {.iterations = layers}, .seed = 8};
  layer_parallel::SerialNetwork reference(blocks_of(layers), options);
  const auto forward = [&](const at::Tensor& x) {
    at::Tensor u = reference.layers(0).front().forward({x}, {}, 0).front();
    for (const layer_parallel::Layer& layer : reference.layers(1)) u = u + layer.forward({u}, {}, 0).front() / layers;  // Euler's method
    return reference.layers(2).front().forward({u}, {}, 0).front();
  };
  train(reference.parameters(), sample_count, input_width, output_width, forward);

  layer_parallel::LayerParallel net(group, blocks_of(layers), options);
  train_part(net.parameters(), conditions, [&](const Samples& all) { loss_of(net.forward(all.inputs), all.targets).backward(); });
  Comparison comparison;
  comparison.expect_near(net.shards(), stacked_parameters(reference), tolerance(sample_count));
  return comparison.outcome();
}

}  // namespace tw::tool::selftest
