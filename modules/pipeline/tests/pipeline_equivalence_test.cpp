// SPDX-License-Identifier: Apache-2.0
// Three steps of a pipeline equal three steps of one process that computes the same rows of the same micro-batches: loss, gradients, parameters,
// buffers. Covers schedules, replicas, recomputation, accumulation, and error-prone models.
#include "mpi_test.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tw/base/concat.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/planning/list_schedule.hpp>

#include "reference.hpp"

namespace tw::pipeline {
namespace pipeline_equivalence_test {

using testing::world;

using Factories = std::vector<BlockFactory>;

BlockFactory linear(int64_t in, int64_t out) {
  return block([=] { return torch::nn::Linear(in, out); });
}
BlockFactory tanh_block() {
  return block([] { return torch::nn::Tanh(); });
}

Factories mlp() { return {linear(3, 6), tanh_block(), linear(6, 6), tanh_block(), linear(6, 6), tanh_block(), linear(6, 2), tanh_block()}; }
Factories batch_norm() {
  const auto norm = block([] { return torch::nn::BatchNorm1d(6); });
  return {linear(3, 6), norm, tanh_block(), linear(6, 6), norm, linear(6, 6), norm, linear(6, 2)};
}
Factories dropout() {
  const auto drop = block([] { return torch::nn::Dropout(0.4); });
  return {linear(3, 6), drop, linear(6, 6), drop, tanh_block(), drop, linear(6, 2), tanh_block()};
}
/// One layer used in three places, so that several stages have it, some of them twice.
Factories tied() {
  const torch::nn::Linear shared(6, 6);
  const auto again = block([shared] { return shared; });
  return {linear(3, 6), again, tanh_block(), again, linear(6, 6), tanh_block(), again, linear(6, 2)};
}
/// Nothing to train in the first blocks, and blocks that modify their input.
Factories in_place() {
  const auto relu = block([] { return torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().inplace(true).negative_slope(0.5)); });
  return {block([] { return torch::nn::Flatten(); }), relu, linear(3, 6), relu, linear(6, 6), relu, linear(6, 2), relu};
}

/// Reads a buffer and changes it.
struct GrowsImpl : torch::nn::Module {
  GrowsImpl() : scale(register_buffer("scale", torch::ones({6}))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = x * scale.clone();
    if (is_training()) scale.mul_(1.1).add_(0.1);
    return y;
  }
  torch::Tensor scale;
};
TORCH_MODULE(Grows);
Factories growing() {
  const auto grows = block([] { return Grows(); });
  return {linear(3, 6), grows, tanh_block(), linear(6, 6), grows, linear(6, 6), grows, linear(6, 2)};
}

torch::Tensor squares(const Tensors& y, const Tensors& t) { return (y.front() - t.front()).square().mean(); }

struct Case {
  std::string what;
  PipelineOptions options;
  std::vector<int64_t> rows = {12, 13, 2};  // of each step; the last one has fewer rows than micro-batches
  int accumulated = 1;
  double tolerance = 1e-12;  // see expect_near()
};

void expect_near(const torch::Tensor& ours, const torch::Tensor& theirs, double tolerance, const std::string& what) {
  // float64, sums of at most 60 terms in a different order, three steps: about 1e-15 of the largest number. Norms of few rows magnify differences by
  // up to 1 / deviation, to 1e-14.
  const double greatest = std::max(1.0, theirs.numel() > 0 ? theirs.to(torch::kDouble).abs().max().item<double>() : 0.0);
  EXPECT_LE((ours.to(torch::kDouble) - theirs.to(torch::kDouble)).abs().max().item<double>(), tolerance * greatest) << what;
}

void expect_equal(const Pipeline& ours, const Reference& expected, bool gradients, double tolerance, const std::string& what) {
  const auto theirs = expected.tensors();
  for (const auto& p : ours.named_parameters()) {
    const torch::Tensor& other = theirs[p.key()];
    if (!gradients) expect_near(p.value().detach(), other.detach(), tolerance, what + ": " + p.key());
    if (!gradients) continue;
    EXPECT_EQ(p.value().grad().defined(), other.grad().defined()) << what << ": " << p.key();
    if (p.value().grad().defined() && other.grad().defined())
      expect_near(p.value().grad(), other.grad(), tolerance, what + ": gradient of " + p.key());
  }
  for (const auto& b : ours.named_buffers()) expect_near(b.value(), theirs[b.key()], tolerance, what + ": " + b.key());
}

/// Draws a batch of `rows` rows.
using Draw = std::function<std::pair<Tensors, Tensors>(int64_t rows)>;

void expect_equals(Pipeline& ours, Reference& expected, const Case& of, const Draw& draw, const LossOfMany& loss) {
  const torch::optim::SGDOptions options = torch::optim::SGDOptions(0.1).momentum(0.9);
  torch::optim::SGD expected_sgd(expected.parameters(), options);
  std::optional<torch::optim::SGD> sgd;  // a stage may have nothing to train
  std::vector<torch::Tensor> trained;
  for (const OptimizedTensor& each : ours.optimized_tensors()) trained.push_back(each.tensor);
  if (!trained.empty()) sgd.emplace(trained, options);
  for (size_t step = 0; step < of.rows.size(); ++step) {
    const std::string what = concat(of.what, ", step ", step);
    expected_sgd.zero_grad();
    ours.zero_grad();
    for (int i = 0; i < of.accumulated; ++i) {
      torch::manual_seed(100 * step + static_cast<uint64_t>(i));
      const auto [x, t] = draw(of.rows[step]);
      const double theirs = expected.run(x, t, loss);  // on copies, because the pipeline may work in place on the batch itself
      EXPECT_NEAR(ours.run(x, t, loss), theirs, of.tolerance * std::max(1.0, std::abs(theirs))) << what;
    }
    expect_equal(ours, expected, true, of.tolerance, what);
    expected_sgd.step();
    if (sgd) sgd->step();
    expect_equal(ours, expected, false, of.tolerance, what);
  }
  ours.eval();
  for (const StageModel& stage : expected.stages()) stage.module->eval();
  const auto [x, t] = draw(5);
  Tensors copies;
  for (const torch::Tensor& each : x) copies.push_back(each.clone());
  const Tensors outputs = ours.forward(copies);
  const Tensors theirs = expected.forward(x);
  ASSERT_EQ(outputs.size(), theirs.size());
  for (size_t i = 0; i < outputs.size(); ++i) expect_near(outputs[i], theirs[i], of.tolerance, of.what + ": outputs");
}

void expect_equals_one_process(Factories (*blocks)(), const Case& of) {
  torch::manual_seed(1);
  Reference expected(stages_of(blocks(), of.options), of.options);
  for (const StageModel& stage : expected.stages()) {
    stage.module->to(torch::kDouble);
    testing::place_module(stage.module);
  }
  torch::manual_seed(1);
  Pipeline ours(world(), blocks(), of.options);
  ours.to(torch::kDouble);
  testing::place_module(&ours);
  const auto draw = [](int64_t rows) {
    return std::pair(Tensors{testing::place(torch::randn({rows, 3}, torch::kDouble))},
                     Tensors{testing::place(torch::randn({rows, 2}, torch::kDouble))});
  };
  expect_equals(ours, expected, of, draw, squares);
}

/// The first stage as in GPipe, the others as in 1F1B.
Schedule own_schedule(int stages, int micro_batches) {
  Schedule own = one_forward_one_backward(stages, micro_batches);
  own.devices[0] = gpipe(stages, micro_batches).devices[0];
  return own;
}

Schedule two_stages_each(int devices, int micro_batches) { return interleaved(devices, 2, micro_batches); }

/// Stages in a row on the same device, and stages of the first device also at the end.
Schedule there_and_back(int devices, int micro_batches) {
  ListOptions options{.micro_batches = micro_batches, .most_held = std::vector<int>(static_cast<size_t>(devices), 4)};
  for (const int step : {1, -1}) {
    for (int i = 0; i < devices; ++i) options.device_of_stages.push_back(step > 0 ? i : devices - 1 - i);
  }
  options.times.resize(options.device_of_stages.size());
  return list_schedule(options);
}

/// All layouts, schedules, recomputation modes, and numbers of accumulated runs. @param all_plain whether several stages a rank also keep graphs, as
/// they do in planned_model_test
std::vector<Case> cases(int micro_batches, const std::vector<int64_t>& rows, bool all_plain = false) {
  std::vector<Case> all;
  for (const std::vector<int>& replicas : layouts(world().size())) {
    const auto devices = static_cast<int>(replicas.size());
    int variant = 0;
    using Make = Schedule (*)(int, int);
    for (const auto& [name, make] : {std::pair<const char*, Make>("GPipe", gpipe),
                                     {"1F1B", one_forward_one_backward},
                                     {"own", own_schedule},
                                     {"interleaved", two_stages_each},
                                     {"there and back", there_and_back}}) {
      const Schedule schedule = make(devices, micro_batches);
      Case of{concat(name, " on",
                     [&] {
                       std::string text;
                       for (const int each : replicas) text += concat(' ', each);
                       return text;
                     }()),
              {.schedule = schedule, .replicas = replicas, .seed = 7},
              rows};
      if (schedule.stages == devices || all_plain) all.push_back(of);
      of.options.recompute.assign(static_cast<size_t>(schedule.stages), variant >= 2 ? Recompute::full : Recompute::selective);
      if (variant++ == 1) of.options.recompute[0] = Recompute::none;
      of.what += ", recomputing, accumulating";
      of.accumulated = 2;
      all.push_back(of);
    }
  }
  return all;
}

TEST(Equivalence, Mlp) {
  for (const Case& of : cases(4, {12, 13, 2})) expect_equals_one_process(mlp, of);
}
TEST(Equivalence, Dropout) {
  for (const Case& of : cases(3, {12, 13, 2})) expect_equals_one_process(dropout, of);
}
TEST(Equivalence, TiedParameters) {
  for (const Case& of : cases(3, {12, 13, 2})) expect_equals_one_process(tied, of);
}
TEST(Equivalence, BlocksThatWorkInPlace) {
  for (const Case& of : cases(3, {12, 13, 2}, /*all_plain=*/true)) expect_equals_one_process(in_place, of);
}
// Several rows on each replica: a batch norm of one row is zero, of two rows plus and minus one.
TEST(Equivalence, BatchNorm) {
  for (const Case& of : cases(2, {41, 40, 42})) expect_equals_one_process(batch_norm, of);
}

TEST(Equivalence, BuffersThatBlocksReadAndChange) {
  for (const Case& of : cases(3, {12, 13, 2})) expect_equals_one_process(growing, of);
}

/// A stage of several tensors: h of this stage, the inputs x and k that all stages need, and more tensors than fit in one message. h' = tanh(W h +
/// E[k]) + x, where h is positive.
struct StateImpl : torch::nn::Module {
  explicit StateImpl(int stage)
      : linear(register_module(concat("linear", stage), torch::nn::Linear(3, 3))),
        embedding(register_module(concat("embedding", stage), torch::nn::Embedding(5, 3))),
        shared(register_parameter("shared", torch::randn({3}))) {}
  Tensors forward(const Tensors& v) { return next(sum(v)); }
  Tensors sum(Tensors v) {
    v.push_back(linear(v.size() == 2 ? v[0] * 2 : v[2]) + embedding(v[1]) * shared);
    return v;
  }
  Tensors next(const Tensors& v) {
    const torch::Tensor &x = v[0], &k = v[1];
    torch::Tensor next = torch::tanh(v.back()) + x;
    if (v.size() > 3) next = torch::where(v[3], next + v[4] * v[7], next - v[5]);
    return {x, k, next, next > 0, next * 2, next - 1, k + 1, shared.expand({x.size(0), 3}).sin()};
  }
  torch::nn::Linear linear;
  torch::nn::Embedding embedding;
  torch::Tensor shared;
};

TEST(Equivalence, StatesOfSeveralTensors) {
  const auto make = [](int stage) {
    torch::manual_seed(static_cast<uint64_t>(30 + stage));
    const auto module = std::make_shared<StateImpl>(stage);
    module->to(torch::kDouble);
    StageModel made{module, {{[module](const Tensors& v, const graph::PassRows& /*rows*/) { return module->forward(v); }}}};
    // The second segment also reads the inputs of the first one.
    made.stages.front().segments = {[module](const Tensors& v, const graph::PassRows& /*rows*/) { return module->sum(v); },
                                    [module](const Tensors& v, const graph::PassRows& /*rows*/) { return module->next(v); }};
    return made;
  };
  const auto draw = [](int64_t rows) {
    return std::pair(Tensors{torch::randn({rows, 3}, torch::kDouble), torch::randint(5, {rows}, torch::kLong)},
                     Tensors{torch::randn({rows, 3}, torch::kDouble), torch::randint(2, {rows}, torch::kLong)});
  };
  const LossOfMany loss = [](const Tensors& y, const Tensors& t) {
    return (y[2] - t[0]).square().mean() + (y[4] + y[5]).sum(1).mul(t[1]).mean() + y[7].sum(1).mean();
  };
  for (Case& of : cases(3, {12, 13, 2})) {
    if (of.options.schedule.stages > 4) of.tolerance = 1e-9;  // each stage doubles values and errors, and so does each step
    std::vector<StageModel> all;
    for (int s = 0; s < of.options.schedule.stages; ++s) all.push_back(make(s));
    for (size_t s = 1; s < all.size(); ++s) {  // all stages share one parameter
      dynamic_cast<StateImpl&>(*all[s].module).shared = dynamic_cast<StateImpl&>(*all[0].module).shared;
    }
    Reference expected(all, of.options);
    const StageRanks ranks(of.options.replicas, of.options.schedule.device_of_stages());
    StageModel mine{std::make_shared<torch::nn::Module>(), {}};
    torch::Tensor shared;
    for (const int stage : ranks.stages_of(ranks.device_of(world().rank()))) {
      StageModel one = make(stage);
      auto& module = dynamic_cast<StateImpl&>(*one.module);
      if (shared.defined()) module.shared = shared;
      shared = module.shared;
      for (const auto& each : module.named_children()) mine.module->register_module(each.key(), each.value());
      mine.stages.push_back(one.stages.front());
    }
    mine.module->register_parameter("shared", shared);
    if (ranks.devices() > 1) mine.tied["shared"] = "shared";
    Pipeline ours(world(), mine, of.options);
    expect_equals(ours, expected, of, draw, loss);
  }
}

}  // namespace pipeline_equivalence_test
}  // namespace tw::pipeline
