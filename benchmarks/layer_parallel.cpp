// SPDX-License-Identifier: Apache-2.0
// layer_parallel/forward_backward: a forward and backward pass with the layers in parallel, against the same network run layer by layer in LibTorch
// on one rank. The case with one rank is called *_one_rank.
// layer_parallel/batching: with and without running a rank's layers as one operation.
// layer_parallel/gru: a recurrent network in parallel over time, against one cell at a time, and against LibTorch's GRU on one rank.
// layer_parallel/gru_solvers: the same with each solver, to the same accuracy. The argument "gru" runs only this.
// layer_parallel/virtual, with the argument "virtual": steps that sleep for 2 ms, against one rank, and against the predicted speed-up.
#include "measure.hpp"

#include <torch/torch.h>

#include <iostream>
#include <optional>
#include <string_view>
#include <tw/base/concat.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/layer_parallel/recurrent.hpp>
#include <tw/planning/level_prediction.hpp>

namespace {

using namespace tw::layer_parallel;
using tw::benchmark::Contest;

struct DenseImpl : torch::nn::Module {
  explicit DenseImpl(int64_t width) : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(const torch::Tensor& u) { return torch::tanh(linear(u)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Dense);

/// Contains an operation without a rule.
struct NormalisedImpl : torch::nn::Module {
  explicit NormalisedImpl(int64_t width) : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(const torch::Tensor& u) { return torch::tanh(torch::layer_norm(linear(u), {u.size(1)})); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Normalised);

struct ConvolutionImpl : torch::nn::Module {
  explicit ConvolutionImpl(int64_t channels)
      : convolution(register_module("convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, channels, 3).padding(1)))) {}
  torch::Tensor forward(const torch::Tensor& u) { return torch::tanh(convolution(u)); }
  torch::nn::Conv2d convolution;
};
TORCH_MODULE(Convolution);

struct Network {
  std::string name;
  Block block;
  std::vector<int64_t> shape;  // shape of the input
  LayerParallelOptions options;
};

Network dense(const std::string& name, int64_t layers, int64_t width, int64_t batch, int64_t c) {
  return {name,
          block([width] { return Dense(width); }, layers),
          {batch, width},
          {.coarsening = c, .forward = {.iterations = 2}, .backward = {.iterations = 1}}};
}

Network normalised(const std::string& name, int64_t layers, int64_t width, int64_t batch, int64_t c) {
  Network network = dense(name, layers, width, batch, c);
  network.block = block([width] { return Normalised(width); }, layers);
  return network;
}

Network convolutions(const std::string& name, int forward_iterations) {
  const CycleOptions f_relaxation{.relaxations = 0};
  return {
      name,
      block([] { return Convolution(4); }, 64),
      {64, 4, 28, 28},
      {.coarsening = 16, .forward = {.iterations = forward_iterations, .cycle = f_relaxation}, .backward = {.iterations = 1, .cycle = f_relaxation}}};
}

/// A pass of `net`, starting without gradients.
template <class Net>
std::function<void()> pass_of(Net& net, const std::vector<int64_t>& shape) {
  torch::manual_seed(1);
  const torch::Tensor x = torch::randn(shape);
  const torch::Tensor cotangent = torch::randn(shape);
  return [&net, x, cotangent] {
    net.zero_grad();
    net.forward(x).backward(cotangent);
  };
}

void against_serial(const Contest& contest, const tw::Communicator& ours, const Network& network, const std::string& name) {
  tw::benchmark::Case of{.benchmark = "layer_parallel/forward_backward", .name = name, .baseline = "serial"};
  of.rounds = 15;
  of.steps = network.shape.size() > 2 ? 1 : 10;
  LayerParallel net(ours, {network.block}, network.options);
  SerialNetwork serial({network.block}, network.options);
  const auto pass = pass_of(net, network.shape);
  const auto serial_pass = pass_of(serial, network.shape);
  of.step = [&] {
    if (contest.is_ours()) {
      if (ours.size() > 1 || contest.comm().rank() == 0) pass();
    } else if (contest.comm().rank() == 0) {
      serial_pass();
    }
  };
  tw::benchmark::compare(contest, of);
}

void against_unbatched(const Contest& contest, Network network) {
  tw::benchmark::Case of{.benchmark = "layer_parallel/batching", .name = network.name, .baseline = "unbatched"};
  network.block.options.batching = contest.is_ours() ? Batching::always : Batching::never;
  LayerParallel net(contest.comm(), {network.block}, network.options);
  of.step = pass_of(net, network.shape);
  tw::benchmark::compare(contest, of);
}

/// Two GRU layers, one time step after the other.
struct CellLoopImpl : torch::nn::Module {
  CellLoopImpl(int64_t input, int64_t hidden)
      : first(register_module("first", torch::nn::GRUCell(input, hidden))), second(register_module("second", torch::nn::GRUCell(hidden, hidden))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor a = torch::zeros({x.size(1), first->options.hidden_size()}), b = a;
    for (const torch::Tensor& step : x.unbind(0)) {
      a = first->forward(step, a);
      b = second->forward(a, b);
    }
    return b;
  }
  torch::nn::GRUCell first, second;
};
TORCH_MODULE(CellLoop);

/// Pixel by pixel: 784 steps, batch 32. Computes the gradient of the last state.
void against_recurrent(const Contest& contest, const tw::Communicator& ours, int64_t c, const std::string& baseline, const std::string& name) {
  constexpr int64_t steps = 784, batch = 32, hidden = 64;
  tw::benchmark::Case of{.benchmark = "layer_parallel/gru", .name = name, .baseline = baseline};
  of.rounds = 9;
  of.steps = 1;
  const CycleOptions f_relaxation{.relaxations = 0};
  Recurrent net(ours, {.hidden_size = hidden,
                       .layers = 2,
                       .coarsening = c,
                       .forward = {.iterations = 2, .cycle = f_relaxation},
                       .backward = {.iterations = 1, .cycle = f_relaxation}});
  CellLoop loop(1, hidden);
  torch::nn::GRU fused(torch::nn::GRUOptions(1, hidden).num_layers(2));
  torch::manual_seed(1);
  const torch::Tensor x = torch::randn({steps, batch, 1});
  const torch::Tensor cotangent = torch::randn({batch, hidden});
  const auto [begin, end] = net.block(steps);
  const torch::Tensor mine = x.narrow(0, begin, end - begin);
  of.step = [&] {
    if (contest.is_ours()) {
      if (ours.size() == 1 && contest.comm().rank() != 0) return;
      net.zero_grad();
      net.forward(mine, steps).hidden[1].backward(cotangent);
    } else if (contest.comm().rank() == 0 && baseline == "cell_loop") {
      loop->zero_grad();
      loop->forward(x).backward(cotangent);
    } else if (contest.comm().rank() == 0) {
      fused->zero_grad();
      std::get<1>(fused->forward(x))[1].backward(cotangent);
    }
  };
  tw::benchmark::compare(contest, of);
}

/// Pixel by pixel, to a relative accuracy in the 2-norm of 1e-4 for the last state and 1e-3 for the parameters' gradients.
class ToAccuracy {
 public:
  static constexpr int64_t steps = 784, batch = 32;

  /// Collective over `ours` if `searches`: finds the least number of iterations for this accuracy.
  ToAccuracy(const tw::Communicator& ours, RecurrentOptions options, bool searches)
      : ours_(ours), options_(std::move(options)), reference_(torch::nn::GRUOptions(1, options_.hidden_size).num_layers(options_.layers)) {
    torch::manual_seed(1);
    x = torch::randn({steps, batch, 1});
    cotangent = torch::randn({batch, options_.hidden_size});
    if (!searches) return;
    Recurrent(ours_, options_).store(*reference_);
    state_ = std::get<1>(reference_->forward(x))[1];
    state_.backward(cotangent);
    while (errors().first > 1e-4 && options_.forward.iterations < most) ++options_.forward.iterations;
    while (errors().second > 1e-3 && options_.backward.iterations < most) ++options_.backward.iterations;
  }

  const RecurrentOptions& options() const { return options_; }
  std::string described() const {
    const auto [state, gradient] = errors();
    return tw::concat(options_.forward.iterations, " iterations forward, ", options_.backward.iterations, " backward, errors ", state,
                      " of the state, ", gradient, " of the gradients");
  }
  void pass(Recurrent& net) const {
    const auto [begin, end] = net.block(steps);
    net.zero_grad();
    net.forward(x.narrow(0, begin, end - begin), steps).hidden[1].backward(cotangent);
  }

  torch::Tensor x, cotangent;

 private:
  static constexpr int most = 40;

  static double relative(const torch::Tensor& ours, const torch::Tensor& exact) { return ((ours - exact).norm() / exact.norm()).item<double>(); }

  /// Errors of the last state and of all gradients.
  std::pair<double, double> errors() const {
    Recurrent net(ours_, options_);
    const auto [begin, end] = net.block(steps);
    const torch::Tensor state = net.forward(x.narrow(0, begin, end - begin), steps).hidden[1];
    state.backward(cotangent);
    std::vector<torch::Tensor> found, exact;
    for (const auto& each : net.named_parameters()) {
      found.push_back(each.value().grad().flatten());
      exact.push_back(reference_->named_parameters()[each.key()].grad().flatten());
    }
    return {relative(state.detach(), state_.detach()), relative(torch::cat(found), torch::cat(exact))};
  }

  const tw::Communicator& ours_;
  RecurrentOptions options_;
  torch::nn::GRU reference_;
  torch::Tensor state_;
};

void compare_solver(const Contest& contest, const tw::Communicator& ours, RecurrentOptions options, const std::string& name) {
  const bool takes_part = contest.is_ours() && (ours.size() > 1 || contest.comm().rank() == 0);
  const int64_t hidden = options.hidden_size;
  const ToAccuracy problem(ours, std::move(options), takes_part);
  if (takes_part) {
    const std::string what = problem.described();
    if (ours.rank() == 0) std::cerr << name << ": " << what << std::endl;
  }
  std::optional<Recurrent> net;
  if (takes_part) net.emplace(ours, problem.options());
  CellLoop loop(1, hidden);
  torch::nn::GRU fused(torch::nn::GRUOptions(1, hidden).num_layers(2));
  for (const std::string baseline : {"cell_loop", "torch_gru"}) {
    tw::benchmark::Case of{.benchmark = "layer_parallel/gru_solvers", .name = name, .baseline = baseline};
    of.rounds = 11;
    of.steps = 1;
    of.step = [&] {
      if (takes_part) {
        problem.pass(*net);
      } else if (!contest.is_ours() && contest.comm().rank() == 0 && baseline == "cell_loop") {
        loop->zero_grad();
        loop->forward(problem.x).backward(problem.cotangent);
      } else if (!contest.is_ours() && contest.comm().rank() == 0) {
        fused->zero_grad();
        std::get<1>(fused->forward(problem.x))[1].backward(problem.cotangent);
      }
    };
    tw::benchmark::compare(contest, of);
  }
}

void compare_solvers(const Contest& contest, const tw::Communicator& alone) {
  const MgritOptions f_relaxation{.iterations = 1, .cycle = {.relaxations = 0}};
  for (const int64_t hidden : {4, 16, 64}) {
    RecurrentOptions options{.hidden_size = hidden, .layers = 2, .forward = f_relaxation, .backward = f_relaxation};
    const auto compare = [&](const std::string& name, bool alone_too = true) {
      compare_solver(contest, contest.comm(), options, tw::concat("hidden_", hidden, '_', name));
      if (alone_too) compare_solver(contest, alone, options, tw::concat("hidden_", hidden, '_', name, "_one_rank"));
    };
    options.coarsening = 8;
    compare("mgrit_c8", false);
    options.coarsening = 16;
    compare("mgrit_c16");
    options.solver = TimeSolver::newton;
    compare("newton", hidden < 64);
    options.solver = TimeSolver::quasi_newton;
    compare("quasi_newton");
  }
}

void measure_recurrent(const Contest& contest) {
  const tw::Communicator alone = contest.comm().split(contest.comm().rank(), 0);
  for (const std::string baseline : {"cell_loop", "torch_gru"}) {
    against_recurrent(contest, contest.comm(), 8, baseline, "c8");
    against_recurrent(contest, contest.comm(), 16, baseline, "c16");
    against_recurrent(contest, alone, 16, baseline, "c16_one_rank");
  }
  compare_solvers(contest, alone);
}

void measure_all(const Contest& contest) {
  measure_recurrent(contest);
  const tw::Communicator alone = contest.comm().split(contest.comm().rank(), 0);
  for (const Network& network :
       {dense("dense_64", 64, 32, 64, 4), dense("dense_256", 256, 32, 64, 4), convolutions("conv_64", 2), convolutions("conv_64_one_iteration", 1)}) {
    against_serial(contest, contest.comm(), network, network.name);
    against_serial(contest, alone, network, network.name + "_one_rank");
  }
  against_unbatched(contest, dense("width_32", 256, 32, 64, 8));
  against_unbatched(contest, dense("width_16", 256, 16, 8, 8));
  against_unbatched(contest, normalised("width_32_layer_norm", 256, 32, 64, 8));
  against_unbatched(contest, normalised("width_16_layer_norm", 256, 16, 8, 8));
}

/// One contestant: all ranks together, and then the first one alone.
void measure_virtual(const Contest& contest) {
  constexpr int64_t steps = 256;
  constexpr auto work = std::chrono::milliseconds(2);
  const tw::Communicator& comm = contest.comm();
  StepwisePropagator propagator([&](const March&, int64_t, const State& u) {
    std::this_thread::sleep_for(work);
    return State{u[0].mul(0.99)};
  });
  const CycleOptions cycle{.relaxations = 0};
  const LevelPlan plan(plan_levels(steps, {.coarsening = 16}), partition_steps(steps, comm.size(), 16), StepOwner::right);
  Mgrit mgrit(comm, plan, {.iterations = 2, .cycle = cycle}, {.last_c_relaxation = true});
  const State origin{torch::ones({4})};
  std::vector<double> ours;
  std::vector<double> serial;
  for (int round = 0; round < 11; ++round) {
    comm.barrier();
    const tw::Stopwatch watch;
    mgrit.solve(propagator, origin);
    comm.barrier();
    const double ours_ms = 1e3 * watch.elapsed().count();
    if (comm.rank() == 0) {
      const tw::Stopwatch alone;
      State u = origin;
      for (int64_t k = 0; k < steps; ++k) {
        std::this_thread::sleep_for(work);
        u = {u[0].mul(0.99)};
      }
      if (round > 0) serial.push_back(1e3 * alone.elapsed().count());
    }
    tw::benchmark::sleeping_barrier(comm);
    if (round > 0) ours.push_back(ours_ms);
  }
  if (comm.rank() != 0) return;
  const double model = static_cast<double>(steps) / static_cast<double>(serial_step_bound(plan, {.cycle = cycle, .iterations = 2}));
  tw::benchmark::Case of{.benchmark = "layer_parallel/virtual", .name = "sleep_2ms", .baseline = "serial", .rounds = 10};
  tw::benchmark::print(contest, of, serial, ours);
  std::vector<double> modelled(serial);
  for (double& ms : modelled) ms /= model;
  of.baseline = "model";
  tw::benchmark::print(contest, of, modelled, ours);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "gru") return tw::benchmark::run(argc, argv, measure_recurrent);
  if (what == "gru_solvers")
    return tw::benchmark::run(argc, argv, [](const Contest& contest) { compare_solvers(contest, contest.comm().split(contest.comm().rank(), 0)); });
  return what == "virtual" ? tw::benchmark::run(argc, argv, measure_virtual, 1) : tw::benchmark::run(argc, argv, measure_all);
}
