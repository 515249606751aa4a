// SPDX-License-Identifier: Apache-2.0
// Schedules of iterations, and a detector that checks whether they are enough.
#include "dense.hpp"
#include "mpi_test.hpp"

#include <cmath>
#include <string>
#include <tw/base/contract.hpp>
#include <tw/layer_parallel/iteration_control.hpp>
#include <tw/layer_parallel/recurrent.hpp>
#include <tw/layer_parallel/report_svg.hpp>

namespace tw::layer_parallel {
namespace iteration_control_test {

using testing::world;
using torch::Tensor;

/// u' = -rate u in 32 steps of 1/8, c = 2. With rate 1 a coarse step is close to two fine ones. With rate 12 it multiplies by 1 - 3 = -2, two fine
/// steps by 1/4.
std::shared_ptr<LayerParallel> make_net(double rate, bool residuals = true) {
  auto net = std::make_shared<LayerParallel>(world(), std::vector<Block>{block([] { return torch::nn::Linear(4, 4); }, 32)},
                                             LayerParallelOptions{.final_time = 4,
                                                                  .coarsening = 2,
                                                                  .forward = {.iterations = 2, .residuals = residuals},
                                                                  .backward = {.iterations = 1, .residuals = residuals}});
  net->to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  for (const auto& p : net->named_parameters()) {
    if (p.key() == "0.weight") p.value().copy_(-rate * torch::eye(4));
  }
  return net;
}

/// One training pass.
void train(IterationControl& control, int64_t number, int64_t epoch = 1) {
  torch::manual_seed(4);
  const Tensor x = torch::randn({3, 4}, torch::kDouble);
  control.pass({.inputs = x,
                .targets = x,
                .loss = [](const Tensor& y, const Tensor& t) { return (y - t).square().mean(); },
                .number = number,
                .epoch = epoch});
}

TEST(IterationControl, FollowsTheSchedule) {
  const auto net = make_net(1);
  const IterationSchedule schedule{.epochs = {2, 4}, .forward = {1, 0}, .backward = {1, 0}};
  IterationControl control(net, net, schedule.stages(), {});
  const std::vector<Iterations> expected{{2, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
  for (int64_t epoch = 1; epoch <= 5; ++epoch) {
    train(control, epoch, epoch);
    EXPECT_EQ(net->iterations(), expected[static_cast<size_t>(epoch) - 1]) << epoch;
    EXPECT_EQ(net->report().blocks[0].forward.iterations, net->iterations().forward);
    EXPECT_EQ(net->report().blocks[0].backward.iterations, net->iterations().backward);
  }
}

TEST(IterationOptions, ReachTheNetwork) {
  const IterationOptions options{.levels = 3, .coarsening = 5, .forward_iterations = 4, .backward_iterations = 2, .relaxations = 1};
  LayerParallelOptions layers;
  RecurrentOptions recurrent;
  options.apply_to(layers);
  options.apply_to(recurrent);
  const auto expect_applied = [](const auto& applied) {
    EXPECT_EQ(applied.levels, 3);
    EXPECT_EQ(applied.coarsening.values()[0], 5);
    EXPECT_EQ(applied.forward.iterations, 4);
    EXPECT_EQ(applied.backward.iterations, 2);
    EXPECT_EQ(applied.forward.cycle.relaxations.values()[0], 1);
    EXPECT_EQ(applied.backward.cycle.relaxations.values()[0], 1);
  };
  expect_applied(layers);
  expect_applied(recurrent);
}

TEST(IterationOptions, SayWhatExcludesEachOther) {
  EXPECT_TRUE(IterationOptions{}.contradictions().empty());
  const IterationOptions options{.backward_iterations = 0, .schedule = {.epochs = {1, 2}, .forward = {1, 2}}};
  const std::vector<Problem> problems = options.contradictions();
  ASSERT_EQ(problems.size(), 2U);
  EXPECT_EQ(problems[0].key, "layer_parallel.backward_iterations");
  EXPECT_EQ(problems[1].key, "layer_parallel.schedule.epochs");
}

TEST(IterationControl, TheDetectorStaysQuietWhereIterationsConverge) {
  const auto net = make_net(1);
  IterationControl control(net, net, {}, {.every = 2, .reaction = Reaction::serial});
  for (int64_t number = 0; number < 4; ++number) train(control, number);
  ASSERT_EQ(control.history().size(), 2U) << "passes 0 and 2";
  for (const Detection& found : control.history()) {
    EXPECT_FALSE(found.fired) << found.factor;
    EXPECT_LT(found.factor, 0.5);
    EXPECT_EQ(found.then, (Iterations{2, 1}));
  }
  EXPECT_EQ(net->report().blocks[0].forward.iterations, 2) << "of the pass that was no look";
}

// If residuals are only rounding errors, their ratio means nothing.
TEST(IterationControl, TheDetectorStaysQuietWhereIterationsAreExact) {
  const auto net = make_net(12);
  net->set_iterations({16, 16});
  IterationControl control(net, net, {}, {.every = 1});
  train(control, 0);
  EXPECT_FALSE(control.history().at(0).fired) << control.history()[0].factor << control.history()[0].where;
}

TEST(IterationControl, TheDetectorFiresWhereTheyDiverge) {
  for (const Reaction reaction : {Reaction::warn, Reaction::more_iterations, Reaction::serial}) {
    const auto net = make_net(12);
    IterationControl control(net, net, {}, {.every = 1, .reaction = reaction, .max_iterations = 4});
    for (int64_t number = 0; number < 3; ++number) train(control, number);
    const std::vector<Detection>& history = control.history();
    ASSERT_FALSE(history.empty());
    EXPECT_TRUE(history[0].fired);
    EXPECT_GT(history[0].factor, 1);
    EXPECT_NE(history[0].where.find("block 0"), std::string::npos) << history[0].where;
    switch (reaction) {
      case Reaction::warn:
        EXPECT_EQ(history.size(), 3U);
        EXPECT_EQ(net->iterations(), (Iterations{2, 1}));
        break;
      case Reaction::more_iterations:
        EXPECT_EQ(history[0].then, (Iterations{4, 2}));
        EXPECT_EQ(history[1].iterations, (Iterations{4, 2}));
        break;
      case Reaction::serial:
        EXPECT_EQ(history.size(), 1U) << "nothing is left to look at";
        EXPECT_EQ(net->iterations(), (Iterations{0, 0}));
        break;
    }
  }
}

TEST(IterationControl, MoreIterationsThanAreWantedAreSerial) {
  const auto net = make_net(12);
  IterationControl control(net, net, {}, {.every = 1, .reaction = Reaction::more_iterations, .max_iterations = 3});
  ::testing::internal::CaptureStderr();
  train(control, 7);
  const std::string said = ::testing::internal::GetCapturedStderr();
  if (world().rank() == 0) {
    EXPECT_NE(said.find("training pass 7, block 0, backward: the iterations diverge; on the finest of 2 levels, the residual after iteration 3 is "),
              std::string::npos)
        << said;
    EXPECT_NE(said.find("the bound is 1; later passes: serial"), std::string::npos) << said;
  }
  EXPECT_EQ(control.history().at(0).then, (Iterations{0, 0}));
}

TEST(IterationControl, ACheckpointRemembersWhatTheDetectorDecided) {
  const auto shard_of = [](const IterationControl& control) {
    for (const NamedShard& shard : control.shards()) {
      if (shard.name == "layer_parallel.iterations") return shard.tensor;
    }
    return Tensor();
  };
  const auto net = make_net(12);
  IterationControl before(net, net, {}, {.every = 1, .reaction = Reaction::serial});
  train(before, 0);
  const auto other = make_net(12);
  IterationControl after(other, other, {{2, {3, 3}}}, {});
  shard_of(after).copy_(shard_of(before));
  train(after, 1);
  EXPECT_EQ(other->iterations(), (Iterations{0, 0}));
  train(after, 2, 2);
  EXPECT_EQ(other->iterations(), (Iterations{0, 0})) << "a schedule does not undo it";
}

// All steps one after the other: bitwise the states of the network in one process.
TEST(IterationControl, NoIterationsAreTheSerialNetwork) {
  const auto net = make_net(12);
  const auto serial = net->serial_on_root();
  const Tensor x = torch::ones({3, 4}, torch::kDouble);
  const torch::NoGradGuard no_grad;
  const Tensor inexact = net->forward(x);
  net->set_iterations({0, 0});
  const Tensor found = net->forward(x);
  EXPECT_EQ(net->report().blocks[0].modelled_speed_up, 1);
  if (!serial) return;
  EXPECT_GT(relative_difference(inexact, serial->forward(x)), 1e-6);
  EXPECT_LT(relative_difference(found, serial->forward(x)), 1e-14);
}

TEST(IterationControl, RefusesWhatIsWrong) {
  const auto net = make_net(1);
  const auto refused = [&](const std::string& text, const std::vector<IterationStage>& schedule, const DetectorOptions& detector) {
    try {
      const IterationControl control(net, net, schedule, detector);
      ADD_FAILURE() << "expected: " << text;
    } catch (const ContractError& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  refused("bound must be positive", {}, {.every = 1, .bound = 0});
  refused("bound must be positive", {}, {.every = 1, .bound = std::nan("")});
  refused("ascend", {{2, {1, 1}}, {2, {2, 2}}}, {});
  refused("0 and 0 for serial", {{2, {1, 0}}}, {});
  EXPECT_THROW(net->set_iterations({0, 1}), ContractError);
  EXPECT_THROW(net->set_iterations({-1, -1}), ContractError);
  const auto silent = make_net(1, /*residuals=*/false);
  IterationControl control(silent, silent, {}, {.every = 1});
  EXPECT_THROW(train(control, 0), ContractError);
}

int64_t count(const std::string& text, const std::string& part) {
  int64_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(ReportSvg, ShowsResidualsRanksAndTheDetector) {
  const auto net = make_net(12);
  IterationControl control(net, net, {}, {.every = 1});
  for (int64_t number = 0; number < 2; ++number) train(control, number);
  const std::vector<NetworkReport> reports = reports_of_all_ranks(world(), control.report());
  ASSERT_EQ(reports.size(), static_cast<size_t>(world().size()));
  const NetworkReport mine = net->report();
  const NetworkReport& same = reports[static_cast<size_t>(int{world().rank()})];
  EXPECT_EQ(same.blocks[0].forward.seconds, mine.blocks[0].forward.seconds);
  EXPECT_EQ(same.blocks[0].backward.waited, mine.blocks[0].backward.waited);
  EXPECT_EQ(same.backward, mine.backward);
  const std::string svg = report_svg(reports, control.history());
  EXPECT_EQ(count(svg, "<svg"), 1);
  EXPECT_EQ(count(svg, "</svg>"), 1);
  EXPECT_EQ(count(svg, "0 forward, iteration"), 3) << "the first of four, with skip, has none";
  EXPECT_EQ(count(svg, "forward, rank "), world().size());
  EXPECT_EQ(count(svg, "backward, rank "), world().size());
  EXPECT_EQ(count(svg, "; fired"), 2);
  EXPECT_EQ(count(svg, "nan"), 0);
  EXPECT_EQ(count(report_svg(reports), "detector"), 0);
}

}  // namespace iteration_control_test
}  // namespace tw::layer_parallel
