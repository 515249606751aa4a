// SPDX-License-Identifier: Apache-2.0
// Recurrent networks over time: equal to torch::nn's after enough iterations, and close before.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <functional>
#include <string>
#include <tw/comm/collectives.hpp>
#include <tw/layer_parallel/recurrent.hpp>

namespace tw::layer_parallel {
namespace recurrent_test {

using testing::world;
using torch::Tensor;

struct Serial {
  Tensor outputs, hidden, cell;
};

/// The torch::nn network with the same weights, and its results.
struct Reference {
  explicit Reference(const RecurrentOptions& o) : options(o) {
    if (o.cell == Cell::lstm) {
      lstm = torch::nn::LSTM(torch::nn::LSTMOptions(o.input_size, o.hidden_size).num_layers(o.layers).bias(o.bias).bidirectional(o.bidirectional));
    } else if (o.cell == Cell::gru) {
      gru = torch::nn::GRU(torch::nn::GRUOptions(o.input_size, o.hidden_size).num_layers(o.layers).bias(o.bias).bidirectional(o.bidirectional));
    } else {
      rnn = torch::nn::RNN(torch::nn::RNNOptions(o.input_size, o.hidden_size).num_layers(o.layers).bias(o.bias).bidirectional(o.bidirectional));
    }
    module().to(torch::kDouble);
  }
  torch::nn::Module& module() { return lstm ? static_cast<torch::nn::Module&>(*lstm) : gru ? static_cast<torch::nn::Module&>(*gru) : *rnn; }

  Serial run(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& lengths) {
    if (!lengths.defined()) {
      if (lstm) {
        auto [y, state] = lstm->forward(x, std::make_tuple(h, c));
        return {y, std::get<0>(state), std::get<1>(state)};
      }
      auto [y, last] = gru ? gru->forward(x, h) : rnn->forward(x, h);
      return {y, last, {}};
    }
    const auto packed = torch::nn::utils::rnn::pack_padded_sequence(x, lengths, false, false);
    const auto padded = [&](const torch::nn::utils::rnn::PackedSequence& y) {
      return std::get<0>(torch::nn::utils::rnn::pad_packed_sequence(y, false, 0.0, x.size(0)));
    };
    if (lstm) {
      auto [y, state] = lstm->forward_with_packed_input(packed, std::make_tuple(h, c));
      return {padded(y), std::get<0>(state), std::get<1>(state)};
    }
    auto [y, last] = gru ? gru->forward_with_packed_input(packed, h) : rnn->forward_with_packed_input(packed, h);
    return {padded(y), last, {}};
  }

  RecurrentOptions options;
  torch::nn::LSTM lstm = nullptr;
  torch::nn::GRU gru = nullptr;
  torch::nn::RNN rnn = nullptr;
};

/// A weighted sum, so that each output has a different cotangent.
Tensor loss_of(const Tensor& value, double phase) {
  return (value * torch::arange(value.numel(), torch::kDouble).mul(0.37).add(phase).cos().view(value.sizes())).sum();
}

/// The largest difference relative to the largest value, over outputs, final states, and the gradients of parameters, inputs and first states.
double largest_error(const RecurrentOptions& options, int64_t steps, const Tensor& lengths = {}) {
  torch::manual_seed(3);
  constexpr int64_t batch = 3;
  Reference reference(options);
  Recurrent net(world(), options);
  net.to(torch::kDouble);
  net.load(reference.module());
  const int64_t parts = options.layers * (options.bidirectional ? 2 : 1);
  const Tensor x = torch::randn({steps, batch, options.input_size}, torch::kDouble).requires_grad_();
  const Tensor h = torch::randn({parts, batch, options.hidden_size}, torch::kDouble).requires_grad_();
  const Tensor c = torch::randn({parts, batch, options.hidden_size}, torch::kDouble).requires_grad_();

  const Serial expected = reference.run(x, h, c, lengths);
  Tensor loss = loss_of(expected.outputs, 0) + loss_of(expected.hidden, 1);
  if (expected.cell.defined()) loss = loss + loss_of(expected.cell, 2);
  loss.backward();

  const auto [begin, end] = net.block(steps);
  const Tensor mine = x.detach().narrow(0, begin, end - begin).clone().requires_grad_();
  const Tensor my_h = h.detach().clone().requires_grad_(), my_c = c.detach().clone().requires_grad_();
  const RecurrentOutput found = net.forward(mine, steps, {lengths, my_h, my_c});
  const Tensor weights = torch::arange(expected.outputs.numel(), torch::kDouble).mul(0.37).cos().view(expected.outputs.sizes());
  Tensor our_loss = (found.outputs * weights.narrow(0, begin, end - begin)).sum() + loss_of(found.hidden, 1);
  if (found.cell.defined()) our_loss = our_loss + loss_of(found.cell, 2);
  our_loss.backward();

  double error = 0;
  const auto compare = [&](const Tensor& ours, const Tensor& theirs) {
    if (ours.numel() > 0) error = std::max(error, (ours - theirs).abs().max().item<double>() / std::max(1.0, theirs.abs().max().item<double>()));
  };
  compare(found.outputs.detach(), expected.outputs.detach().narrow(0, begin, end - begin));
  compare(found.hidden.detach(), expected.hidden.detach());
  if (found.cell.defined()) compare(found.cell.detach(), expected.cell.detach());
  compare(mine.grad(), x.grad().narrow(0, begin, end - begin));
  compare(my_h.grad(), h.grad());
  if (found.cell.defined()) compare(my_c.grad(), c.grad());
  const auto parameters = reference.module().named_parameters();
  for (const auto& each : net.named_parameters()) compare(each.value().grad(), parameters[each.key()].grad());
  const Tensor worst = torch::full({1}, error, torch::kDouble);
  allreduce(world(), worst, ReduceOp::max);
  return worst.item<double>();
}

// 1e-12: hundreds of rounding errors of numbers of size 1, in sums of hundreds of terms.
constexpr double rounding = 1e-12;

RecurrentOptions small(Cell cell) { return {.cell = cell, .input_size = 2, .hidden_size = 5}; }

/// Sets enough iterations for exact results in both directions.
void make_exact(RecurrentOptions& options, int64_t steps) {
  const auto enough = static_cast<int>(steps);
  options.forward.iterations = enough;
  options.backward.iterations = enough;
}

TEST(Recurrent, IsTorchsWithOneLevel) {
  for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm}) {
    RecurrentOptions options = small(cell);
    options.levels = 1;
    EXPECT_LT(largest_error(options, 19), rounding) << static_cast<int>(cell);
    options.bias = false;
    options.layers = 2;
    EXPECT_LT(largest_error(options, 7), rounding) << static_cast<int>(cell);
  }
}

TEST(Recurrent, IsTorchsWithEnoughIterations) {
  for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm}) {
    for (const CoarseCell coarse : {CoarseCell::frozen_gates, CoarseCell::implicit}) {
      for (const int levels : {2, 3}) {
        for (const int64_t steps : {24, 19}) {  // the second length is padded
          RecurrentOptions options = small(cell);
          options.coarse_cell = coarse;
          options.levels = levels;
          options.coarsening = 3;
          make_exact(options, steps);
          EXPECT_LT(largest_error(options, steps), rounding) << static_cast<int>(cell) << static_cast<int>(coarse) << levels << ' ' << steps;
        }
      }
    }
  }
}

TEST(Recurrent, TakesLayersDirectionsAndLengths) {
  const Tensor lengths = torch::tensor({17, 20, 4}, torch::kLong);
  for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm}) {
    RecurrentOptions options = small(cell);
    options.layers = 2;
    options.bidirectional = true;
    options.coarsening = 4;
    make_exact(options, 20);
    EXPECT_LT(largest_error(options, 20), rounding) << static_cast<int>(cell);
    EXPECT_LT(largest_error(options, 20, lengths), rounding) << static_cast<int>(cell);
    EXPECT_LT(largest_error(options, 21, lengths), rounding) << static_cast<int>(cell);
  }
}

RecurrentOptions solved_by(TimeSolver solver, Cell cell) {
  RecurrentOptions options = small(cell);
  options.solver = solver;
  return options;
}

TEST(Recurrent, IsTorchsWithNewtonsMethod) {
  for (const TimeSolver solver : {TimeSolver::newton, TimeSolver::quasi_newton}) {
    for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm}) {
      for (const int64_t steps : {24, 19}) {
        RecurrentOptions options = solved_by(solver, cell);
        make_exact(options, steps);
        if (solver == TimeSolver::newton) options.backward.iterations = 1;  // the adjoint is linear
        EXPECT_LT(largest_error(options, steps), rounding) << static_cast<int>(solver) << static_cast<int>(cell) << ' ' << steps;
      }
      RecurrentOptions options = solved_by(solver, cell);
      make_exact(options, 3);
      options.bias = false;
      EXPECT_LT(largest_error(options, 1), rounding) << static_cast<int>(solver) << static_cast<int>(cell);
      EXPECT_LT(largest_error(options, 2), rounding) << static_cast<int>(solver) << static_cast<int>(cell);
    }
  }
}

TEST(Recurrent, TakesLayersDirectionsAndLengthsWithNewtonsMethod) {
  const Tensor lengths = torch::tensor({17, 20, 4}, torch::kLong);
  for (const TimeSolver solver : {TimeSolver::newton, TimeSolver::quasi_newton}) {
    for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm}) {
      RecurrentOptions options = solved_by(solver, cell);
      options.layers = 2;
      options.bidirectional = true;
      make_exact(options, 21);
      if (solver == TimeSolver::newton) options.backward.iterations = 1;
      EXPECT_LT(largest_error(options, 20), rounding) << static_cast<int>(solver) << static_cast<int>(cell);
      EXPECT_LT(largest_error(options, 21, lengths), rounding) << static_cast<int>(solver) << static_cast<int>(cell);
    }
  }
}

// Newton's method squares the error in each iteration. For gated cells, the part that diagonals ignore is small, and each iteration reduces the error
// by a factor of about 5. A plain cell has no path other than the matrix, so that part dominates.
TEST(Recurrent, NewtonsMethodNeedsAHandfulOfIterations) {
  for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm}) {
    RecurrentOptions options = solved_by(TimeSolver::newton, cell);
    options.backward.iterations = 1;
    options.forward.iterations = 8;
    EXPECT_LT(largest_error(options, 96), 1e-10) << static_cast<int>(cell);
    double before = 1e300;
    for (const int iterations : {2, 5, 8}) {
      options = solved_by(TimeSolver::quasi_newton, cell);
      options.forward.iterations = options.backward.iterations = iterations;
      const double error = largest_error(options, 96);
      EXPECT_LT(error, before / (cell == Cell::rnn ? 1.5 : 27)) << static_cast<int>(cell) << ' ' << iterations;
      before = error;
    }
  }
}

TEST(Recurrent, TheAdjointOfQuasiNewtonConvergesToo) {
  for (const Cell cell : {Cell::gru, Cell::lstm}) {
    double before = 1e300;
    for (const int iterations : {2, 5, 8}) {
      RecurrentOptions options = solved_by(TimeSolver::quasi_newton, cell);
      options.forward.iterations = 96;
      options.backward.iterations = iterations;
      const double error = largest_error(options, 96);
      EXPECT_LT(error, before / 27) << static_cast<int>(cell) << ' ' << iterations;
      before = error;
    }
  }
}

TEST(Recurrent, KeepsTheStateOfASequenceWithoutSteps) {
  for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm}) {
    for (const CoarseCell coarse : {CoarseCell::frozen_gates, CoarseCell::implicit}) {
      RecurrentOptions options = small(cell);
      options.coarse_cell = coarse;
      Recurrent net(world(), options);
      const auto [begin, end] = net.block(32);
      torch::manual_seed(7);  // the same on all ranks
      const Tensor first = torch::randn({1, 2, 5}).requires_grad_();
      const Tensor lengths = torch::tensor({0, 32}, torch::kLong);
      const RecurrentOutput found = net.forward(torch::randn({end - begin, 2, 2}), 32, {.lengths = lengths, .hidden = first});
      EXPECT_TRUE(found.hidden.select(1, 0).equal(first.select(1, 0)));
      EXPECT_EQ(found.outputs.select(1, 0).abs().sum().item<float>(), 0);
      found.hidden.select(1, 0).sum().backward();
      EXPECT_TRUE(first.grad().select(1, 0).equal(torch::ones({1, 5})));
      EXPECT_EQ(first.grad().select(1, 1).abs().sum().item<float>(), 0);
    }
  }
}

TEST(Recurrent, TakesSequencesShorterThanTheRanks) {
  RecurrentOptions options = small(Cell::gru);
  make_exact(options, 3);
  EXPECT_LT(largest_error(options, 1), rounding);
  EXPECT_LT(largest_error(options, 2), rounding);
}

// The theorem: 24 steps in intervals of 3 are exact after ceil((24 / 3 - 1) / (1 + nu)) iterations, plus one with skip, and not before.
TEST(Recurrent, IsExactWhenTheFormulaSaysSo) {
  for (const int relaxations : {0, 1}) {
    for (const bool skip : {false, true}) {
      const int enough = (7 + relaxations) / (1 + relaxations) + (skip ? 1 : 0);
      RecurrentOptions options = small(Cell::gru);
      options.coarsening = 3;
      for (MgritOptions* direction : {&options.forward, &options.backward}) {
        direction->iterations = enough;
        direction->cycle = {.relaxations = relaxations, .skip_downcycle = skip};
      }
      EXPECT_LT(largest_error(options, 24), rounding) << relaxations << skip;
      options.forward.iterations = enough - 1;
      EXPECT_GT(largest_error(options, 24), rounding) << relaxations << skip;
      options.forward.iterations = enough;
      options.backward.iterations = enough - 1;
      EXPECT_GT(largest_error(options, 24), rounding) << relaxations << skip;
    }
  }
}

// With a single iteration, the adjoint is what the coarse cells predict from the cotangents of all outputs. Where gates forget slowly, that is close.
TEST(Recurrent, TheCoarseAdjointKnowsTheCotangentsOfTheOutputs) {
  for (const Cell cell : {Cell::gru, Cell::lstm}) {
    RecurrentOptions options = small(cell);
    options.coarsening = 4;
    options.longest_memory = 10000;
    Recurrent net(world(), options);
    net.to(torch::kDouble);
    const auto [begin, end] = net.block(96);
    torch::manual_seed(5);
    const Tensor x = torch::randn({96, 3, 2}, torch::kDouble).narrow(0, begin, end - begin);
    const auto gradient_of_first_states = [&](Iterations iterations) {
      net.set_iterations(iterations);
      const Tensor h = torch::zeros({1, 3, 5}, torch::kDouble).requires_grad_();
      const Tensor c = torch::zeros({1, 3, 5}, torch::kDouble).requires_grad_();
      net.forward(x, 96, {{}, h, c}).outputs.sum().backward();
      return cell == Cell::lstm ? c.grad() : h.grad();
    };
    const Tensor expected = gradient_of_first_states({0, 0});
    const Tensor found = gradient_of_first_states({24, 1});
    EXPECT_LT((found - expected).norm().item<double>(), 0.05 * expected.norm().item<double>()) << static_cast<int>(cell);
  }
}

TEST(Recurrent, MakesAllStepsInSeriesWhereThatIsWanted) {
  for (const OnDivergence reaction : {OnDivergence::report, OnDivergence::serial}) {
    RecurrentOptions options = small(Cell::lstm);
    const bool diverges = reaction == OnDivergence::serial;
    for (MgritOptions* direction : {&options.forward, &options.backward}) {
      direction->iterations = diverges ? 3 : 0;
      direction->on_divergence = reaction;
    }
    const double error = largest_error(options, 37);
    if (!diverges) {
      EXPECT_LT(error, rounding);
    }
  }
}

// A GRU with initial weights over 96 steps: coarse steps with frozen gates are closer to it than implicit ones, and each iteration improves them.
TEST(Recurrent, ConvergesBeforeItIsExact) {
  double before = 1e300;
  for (const int iterations : {1, 2, 4}) {
    RecurrentOptions options = small(Cell::gru);
    options.forward.iterations = options.backward.iterations = iterations;
    const double frozen = largest_error(options, 96);
    EXPECT_LT(frozen, before / 2);
    before = frozen;
    options.coarse_cell = CoarseCell::implicit;
    if (iterations == 4) {
      EXPECT_LT(frozen, largest_error(options, 96));
    }
  }
  EXPECT_LT(before, 1e-2);
}

// The adjoint alone: the forward direction is exact.
TEST(Recurrent, TheAdjointConvergesToo) {
  for (const Cell cell : {Cell::gru, Cell::lstm}) {
    double before = 1e300;
    for (const int iterations : {1, 2, 4}) {
      RecurrentOptions options = small(cell);
      options.forward.iterations = 96;
      options.backward.iterations = iterations;
      const double error = largest_error(options, 96);
      EXPECT_LT(error, before / 2) << static_cast<int>(cell);
      before = error;
    }
    EXPECT_LT(before, 1e-3) << static_cast<int>(cell);
  }
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Recurrent, SaysWhatDoesNotFit) {
  const RecurrentOptions options{.input_size = 2, .hidden_size = 5};
  const auto expect = [&](const std::string& part, const std::function<void(Recurrent & net, const Tensor& block)>& call) {
    Recurrent net(world(), options);
    const auto [begin, end] = net.block(30);
    world().barrier();  // otherwise the refusal on one rank could release another from there
    const std::string said = refusal([&] { call(net, torch::zeros({end - begin, 3, 2})); });
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  const auto lengths = torch::tensor({1, 2, 31}, torch::kLong);
  expect("batch, 2]", [](Recurrent& net, const Tensor& block) { net.forward(block.narrow(2, 0, 1), 30); });
  expect("; of 930 steps", [](Recurrent& net, const Tensor& block) {
    net.block(930);
    world().barrier();
    net.forward(block, 930);
  });
  expect("from 0 to 30", [&](Recurrent& net, const Tensor& block) { net.forward(block, 30, {.lengths = lengths}); });
  expect("expected [1, 3, 5]", [](Recurrent& net, const Tensor& block) { net.forward(block, 30, {.hidden = torch::zeros({1, 3, 4})}); });
  expect("weight_ih_l0 is", [](Recurrent& net, const Tensor&) { net.load(*torch::nn::LSTM(2, 5)); });
  expect("hidden_size", [](Recurrent&, const Tensor&) { Recurrent(world(), {.hidden_size = 0}); });
}

}  // namespace recurrent_test
}  // namespace tw::layer_parallel
