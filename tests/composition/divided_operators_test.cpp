// SPDX-License-Identifier: Apache-2.0
// Operators divided along `tensor` in modules that do unusual things: the numbers are those of one process. The table has the usual modules.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <tw/parallel_model.hpp>
#include <tw/tensor_parallel/operations.hpp>

namespace divided_operators_test {

using at::Tensor;
using tw::testing::message_of;
using tw::testing::world;
using Tensors = std::vector<Tensor>;

/// Layers for all cases: a case uses what it needs.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    torch::manual_seed(5);
    up = register_module("up", torch::nn::Linear(8, 16));
    other = register_module("other", torch::nn::Linear(8, 16));
    down = register_module("down", torch::nn::Linear(16, 8));
    token = register_parameter("token", torch::randn({16}));
    shown = register_buffer("shown", other->bias.detach());
    turn = torch::polar(torch::ones({8}, torch::kDouble), torch::arange(8, torch::kDouble));
    to(torch::kDouble);
    shown.set_data(other->bias.detach());
  }
  torch::nn::Linear up{nullptr}, other{nullptr}, down{nullptr};
  Tensor token, shown, turn;
};
TORCH_MODULE(Net);

struct Case {
  std::string name;
  std::function<Tensor(NetImpl& net, const Tensors& inputs)> forward;
  bool has_mask = false;  ///< a second input, which is all true in the example
};

Tensor heads(const Tensor& x) { return x.unflatten(-1, {2, 2, 4}).transpose(1, 2); }

const std::vector<Case>& cases() {
  using Inputs = const Tensors&;
  static const std::vector<Case> all{
      {"rows among heads",
       [](NetImpl& net, Inputs in) {
         const Tensor heads_as_rows = torch::layer_norm(net.up(in[0]).reshape({-1, 4}), {4});
         return net.down(heads_as_rows.view({-1, 16}));
       }},
      {"the same layer without gradients first",
       [](NetImpl& net, Inputs in) {
         const Tensor target = [&] {
           const at::NoGradGuard no_grad;
           return torch::relu(net.other(in[0]));
         }();
         return net.down(torch::relu(net.up(net.down(torch::tanh(net.up(in[0])) - target))));
       }},
      {"complex numbers",
       [](NetImpl& net, Inputs in) {
         const Tensor turned = torch::view_as_real(torch::view_as_complex(net.up(in[0]).unflatten(-1, {8, 2})) * net.turn).flatten(-2);
         return net.down(torch::relu(net.up(net.down(turned))));
       }},
      {"fourier transform", [](NetImpl& net, Inputs in) { return net.down(torch::relu(torch::fft_irfft(torch::fft_rfft(net.up(in[0]))))); }},
      {"assignment to a slice",
       [](NetImpl& net, Inputs in) {
         const Tensor x = torch::zeros({in[0].size(0), 2, 8}, torch::kDouble);
         x.select(1, 0).copy_(net.down(net.up(in[0])));
         x.select(1, 1).copy_(in[0]);
         return net.down(torch::relu(net.up(torch::tanh(x)))).sum(1);
       }},
      {"clamped without gradients",
       [](NetImpl& net, Inputs in) {
         const Tensor x = net.up(in[0]);
         {
           const at::NoGradGuard no_grad;
           x.clamp_(-0.5, 0.5);
         }
         return net.down(x);
       }},
      {"mask", [](NetImpl& net, Inputs in) { return net.down(torch::where(in[1], net.down(net.up(in[0])).repeat({1, 2}), net.token)); }, true},
      {"numbers that look alike",
       [](NetImpl& net, Inputs in) {
         const Tensor x = net.down(torch::tanh(net.up(in[0]) * 0.12345671));
         return net.down(torch::tanh(net.up(x) * 0.12345679));
       }},
      {"attention by heads",
       [](NetImpl& net, Inputs in) {
         const Tensor q = net.up(in[0]);
         const Tensor a = torch::scaled_dot_product_attention(heads(q), heads(net.other(in[0])), heads(q));
         return net.down(a.transpose(1, 2).view({in[0].size(0), 16}));
       }},
      {"type kept in place",
       [](NetImpl& net, Inputs in) {
         const Tensor x = net.up(in[0]);
         return net.down(x * (x.clone().gt_(0) + x.clone().gt_(0.5)));
       }},
      {"largest feature",
       [](NetImpl& net, Inputs in) {
         const Tensor x = net.up(in[0]);
         return net.down(x * (x == x.amax(-1, true)));
       }},
      {"whether any feature is large",
       [](NetImpl& net, Inputs in) {
         const Tensor x = torch::relu(net.up(in[0]) - 0.5);
         return net.down(x.any(-1, true) * net.other(in[0]) + x);
       }},
      {"in place in evaluation alone",  // what the sigmoid has saved for a backward pass
       [](NetImpl& net, Inputs in) {
         Tensor x = torch::sigmoid(net.up(in[0]));
         if (!net.is_training()) x.mul_(2);
         return net.down(x);
       }},
      {"order of features",
       [](NetImpl& net, Inputs in) {
         const Tensor x = net.up(in[0]);
         return net.down(torch::cumsum(x, 1) + x.flip({1}) + x.roll(3, 1) + std::get<0>(torch::sort(x, 1)) +
                         x.unflatten(1, {4, 4}).std(2, true, true).repeat({1, 1, 4}).flatten(1));
       }},
      {"groups",
       [](NetImpl& net, Inputs in) {
         return net.down(torch::group_norm(net.up(in[0]).unflatten(1, {8, 2}), 4).flatten(1) +
                         torch::glu(torch::cat({net.up(in[0]), net.other(in[0])}, 1), 1));
       }},
      {"packed projections",
       [](NetImpl& net, Inputs in) {
         const Tensors parts = net.up(in[0]).chunk(2, 1);
         return net.down(torch::cat({parts[0] * torch::sigmoid(parts[1]), parts[1]}, 1));
       }},
      {"an output that is a parameter's function",
       [](NetImpl& net, Inputs in) { return net.down(net.up(in[0]) * net.token) + net.down->bias.square(); }},
      {"a buffer in a parameter's memory", [](NetImpl& net, Inputs in) { return net.down(net.up(in[0]) + net.other(in[0]) + net.shown); }},
  };
  return all;
}

Tensor row_numbers(int64_t rows, int64_t seed) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  return torch::randn({rows, 8}, torch::kDouble);
}

/// @param rows of all places
Tensors batch(const Case& of, int64_t rows, bool is_example) {
  Tensors inputs{row_numbers(rows, 100 + rows)};
  if (of.has_mask) inputs.push_back(is_example ? torch::ones({rows, 16}, torch::kBool) : torch::rand({rows, 16}) < 0.5);
  return inputs;
}

Tensors part(const Tensors& tensors, int64_t place, int64_t places) {
  Tensors mine;
  for (const Tensor& each : tensors) mine.push_back(each.tensor_split(places)[static_cast<size_t>(place)]);
  return mine;
}

class Divided : public ::testing::TestWithParam<size_t> {};

TEST_P(Divided, ModuleTrainsAsInOneProcess) {
  const Case& of = cases().at(GetParam());
  for (const int along_tensor : {2, 4}) {
    SCOPED_TRACE(along_tensor);
    const tw::Mesh mesh(world(), {{"data", -1}, {"tensor", along_tensor}});
    Net net;
    const tw::graph::Forward forward = [&](const Tensors& in) { return Tensors{of.forward(*net, in)}; };
    const Tensors example = batch(of, 4, true);
    tw::ParallelModel model =
        tw::parallelize(mesh, net.ptr(), forward, example, {.micro_batches = 2, .split_goal = tw::splits::SplitGoal::least_memory});
    EXPECT_NE(model.explain().find("whole on every rank"), std::string::npos);
    Net alone;
    torch::optim::SGD ours(model.parameters(), 0.1);
    torch::optim::SGD theirs(alone->parameters(), 0.1);
    for (const int64_t rows : {12, 7}) {
      const Tensors inputs = batch(of, rows, false);
      const Tensors targets{row_numbers(rows, 999)};
      ours.zero_grad();
      const double loss =
          model.train_step(part(inputs, model.place(), model.places()), part(targets, model.place(), model.places()), torch::nn::MSELoss());
      ours.step();
      theirs.zero_grad();
      const Tensor expected = torch::mse_loss(of.forward(*alone, inputs), targets[0]);
      expected.backward();
      theirs.step();
      EXPECT_NEAR(loss, expected.item<double>(), 1e-12 * (1 + std::abs(loss)));
    }
    for (const auto& [name, tensor] : model.whole_on_root()) {
      const Tensor found = alone->named_parameters().contains(name) ? alone->named_parameters()[name] : alone->named_buffers()[name];
      EXPECT_LT((tensor - found).abs().max().item<double>(), 1e-12) << name;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Of, Divided, ::testing::Range<size_t>(0, cases().size()), [](const auto& of) {
  std::string name = cases().at(of.param).name;
  std::ranges::replace_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

// As of users who draw it without a seed, or have a single row at hand.
TEST(DividedOperators, TakeAnExampleThatDiffersBetweenRanks) {
  const tw::Mesh mesh(world(), {{"tensor", -1}});
  const Case& of = cases().front();
  for (const auto type : {torch::kFloat, torch::kDouble}) {
    for (const int64_t rows : {1, 5}) {
      Net net;
      net->to(type);
      const tw::graph::Forward forward = [&](const Tensors& in) { return Tensors{of.forward(*net, in)}; };
      tw::ParallelModel model = tw::parallelize(mesh, net.ptr(), forward, {row_numbers(rows, 50 + world().rank()).to(type)},
                                                {.split_goal = tw::splits::SplitGoal::least_memory});
      Net alone;
      alone->to(type);
      const Tensor x = row_numbers(6, 7).to(type);
      const double loss = model.train_step({x}, {x}, torch::nn::MSELoss());
      const Tensor expected = torch::mse_loss(of.forward(*alone, {x}), x);
      expected.backward();
      EXPECT_NEAR(loss, expected.item<double>(), type == torch::kFloat ? 1e-5 : 1e-12);
      EXPECT_NEAR(model.clip_grad_norm(1e9), torch::nn::utils::clip_grad_norm_(alone->parameters(), 1e9), type == torch::kFloat ? 1e-4 : 1e-12);
    }
  }
}

TEST(DividedOperators, KeepTheExamplesOrderInMemory) {
  const tw::Mesh mesh(world(), {{"tensor", -1}});
  Net net;
  const tw::graph::Forward forward = [&](const Tensors& in) { return Tensors{net->down(torch::relu(net->up(in[0].transpose(1, 2).view({-1, 8}))))}; };
  const Tensor x = row_numbers(5, 3).view({5, 2, 4}).transpose(1, 2);
  tw::ParallelModel model = tw::parallelize(mesh, net.ptr(), forward, {x}, {.split_goal = tw::splits::SplitGoal::least_memory});
  Net alone;
  const Tensor expected = alone->down(torch::relu(alone->up(row_numbers(5, 3)))).square().mean();
  EXPECT_NEAR(model.train_step({x}, {torch::zeros({5, 8}, torch::kDouble)}, torch::nn::MSELoss()), expected.item<double>(), 1e-12);
}

TEST(DividedOperators, CompareOutputsThatAreComplexOrIntegers) {
  const tw::Mesh mesh(world(), {{"tensor", -1}});
  Net net;
  const tw::graph::Forward forward = [&](const Tensors& in) {
    const Tensor y = net->down(torch::relu(net->up(in[0])));
    return Tensors{y, torch::fft_rfft(y), y.argmax(-1), y - y};
  };
  EXPECT_NO_THROW((void)tw::parallelize(mesh, net.ptr(), forward, {row_numbers(5, 3)}, {.split_goal = tw::splits::SplitGoal::least_memory}));
}

TEST(DividedOperators, RefuseAModuleThatCommunicatesByItself) {
  const tw::Mesh mesh(world(), {{"tensor", -1}});
  Net net;
  const tw::graph::Forward forward = [&](const Tensors& in) {
    return Tensors{tw::tensor_parallel::reduce_from_ranks(mesh["tensor"], net->up(in[0]))};
  };
  const std::string error = message_of([&] { (void)tw::parallelize(mesh, net.ptr(), forward, {row_numbers(4, 1)}); });
  EXPECT_NE(error.find("derive the one that calls it from tensor_parallel::SplitModule"), std::string::npos) << error;
}

}  // namespace divided_operators_test
