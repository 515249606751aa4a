// SPDX-License-Identifier: Apache-2.0
// Habits of LibTorch's users around wrapped models: the parameters of one process with all samples, or an error at once that says what to write.
//
// Tolerance: |ours - reference| <= 1e-12 |reference| in the 2-norm of each parameter, in float64, for at most 8 smooth updates.
#include "habits.hpp"

#include <map>

namespace habits_test {

using namespace tw::testing::habits;
using tw::testing::message_of;
using tw::testing::world;

enum class Kind { data_parallel, sharded_optimizer, fully_sharded, local_sgd, diloco };
const std::vector<Kind> kinds{Kind::data_parallel, Kind::sharded_optimizer, Kind::fully_sharded, Kind::local_sgd, Kind::diloco};

std::unique_ptr<Loop> make(Kind kind) {
  switch (kind) {
    case Kind::data_parallel: return std::make_unique<DataParallelLoop>();
    case Kind::sharded_optimizer: return std::make_unique<ShardedOptimizerLoop>();
    case Kind::fully_sharded: return std::make_unique<FullyShardedLoop>();
    case Kind::local_sgd: return std::make_unique<LocalSgdLoop>();
    case Kind::diloco: return std::make_unique<DiLoCoLoop>();
  }
  return nullptr;
}

const std::string right;                    // what one process computes
const std::string own = "each rank's own";  // allowed, and of this rank alone, since gradients are
const std::string none = "not there";

/// What is done, and by kind what comes of it: right, own, none, or a part of the error.
struct Habit {
  std::string name;
  std::function<void(Loop&)> act;
  std::vector<std::string> outcomes;
};

/// `pass` makes the gradients of each of three steps.
void train(Loop& loop, const std::function<void(int64_t step)>& pass) {
  for (int64_t step = 0; step < 3; ++step) {
    loop.zero_grad();
    pass(step);
    loop.step();
  }
}
void train(Loop& loop) {
  train(loop, [&](int64_t step) { loop.loss(step).backward(); });
}

void by_module(Loop& loop, bool to_none) {
  for (int64_t step = 0; step < 3; ++step) {
    loop.net->zero_grad(to_none);
    loop.loss(step).backward();
    loop.step();
  }
}

void clip(Loop& loop, const std::vector<at::Tensor>& tensors) {
  train(loop, [&](int64_t step) {
    loop.loss(step).backward();
    torch::nn::utils::clip_grad_norm_(tensors, 0.1);
  });
}

void clip_values(Loop& loop) {
  train(loop, [&](int64_t step) {
    loop.loss(step).backward();
    torch::nn::utils::clip_grad_value_(loop.updated, 0.02);
  });
}

void by_closure(Loop& loop, torch::optim::Optimizer& optimizer) {
  for (int64_t step = 0; step < 3; ++step) {
    optimizer.step([&] {
      optimizer.zero_grad();
      const at::Tensor loss = loop.loss(step);
      loss.backward();
      return loop.reduced(loss);
    });
    loop.after_step();
  }
}

void ordinary_optimizer(Loop& loop) {
  const auto sgd = make_sgd(loop.net->parameters());
  for (int64_t step = 0; step < 3; ++step) {
    sgd->zero_grad();
    loop.loss(step).backward();
    sgd->step();
    loop.after_step();
  }
}

void freeze(Loop& loop) {
  for (int64_t step = 0; step < 3; ++step) {
    loop.net->last->weight.requires_grad_(step != 1);
    loop.zero_grad();
    loop.loss(step).backward();
    loop.step();
  }
}

void add_group(Loop& loop) {
  std::vector<at::Tensor> tensors = loop.updated;
  const at::Tensor last = tensors.back();
  tensors.pop_back();
  loop.optimizer = make_sgd(tensors);
  loop.optimizer->add_param_group(torch::optim::OptimizerParamGroup(std::vector<at::Tensor>{last}));
  train(loop);
}

void convert(Loop& loop) {
  loop.net->to(torch::kFloat);
  loop.zero_grad();
  loop.net->forward(loop.samples(0).to(torch::kFloat)).square().mean().backward();
  loop.step();
}

void clone(Loop& loop) {
  train(loop);
  const auto copy = std::dynamic_pointer_cast<NetImpl>(loop.net->clone());
  const at::Tensor x = Loop::all_samples(9);
  EXPECT_TRUE(copy->forward(x).equal(loop.net->forward(x)));
}

void save(Loop& loop) {
  train(loop);
  std::stringstream file;
  torch::save(loop.net, file);
  auto copy = std::make_shared<NetImpl>();
  torch::load(copy, file);
  const at::Tensor x = Loop::all_samples(9);
  EXPECT_TRUE(copy->forward(x).equal(loop.net->forward(x)));
}

void load(Loop& loop) {
  torch::manual_seed(31);
  std::stringstream file;
  torch::save(std::make_shared<NetImpl>(), file);
  train(loop);
  torch::load(loop.net, file);
  train(loop);
}

void evaluate(Loop& loop) {
  train(loop, [&](int64_t step) {
    const at::Tensor loss = loop.loss(step);
    loop.net->eval();
    {
      const torch::NoGradGuard no_grad;
      loop.loss(step + 1);
    }
    loop.net->train();
    loss.backward();
  });
}

void throw_in_forward(Loop& loop) {
  train(loop, [&](int64_t step) {
    loop.net->throws = true;
    EXPECT_ANY_THROW(loop.loss(step).backward());
    loop.net->throws = false;
    loop.loss(step).backward();
  });
}

void throw_in_step(Loop& loop) {
  train(loop);
  EXPECT_ANY_THROW(loop.optimizer->step([]() -> at::Tensor { throw std::runtime_error("mine"); }));
  train(loop);
}

void wrap_again(Loop& loop) {
  const tw::DataParallel another(world(), *loop.net, {.reduction = tw::Reduction::mean});
  train(loop);
}

const std::vector<Habit>& all_habits() {
  static const std::string sharded = "of first.weight is sharded";
  static const std::string over_slices = "FullySharded::slices()";
  static const std::vector<Habit> all{
      //                                          DataParallel, ShardedOptimizer, FullySharded, LocalSgd, DiLoCo
      {"optimizer.zero_grad()", [](Loop& loop) { train(loop); }, {right, right, right, right, right}},
      {"model->zero_grad()", [](Loop& loop) { by_module(loop, true); }, {right, right, right, right, right}},
      {"model->zero_grad(false)", [](Loop& loop) { by_module(loop, false); }, {right, sharded, over_slices, right, right}},
      {"clip_grad_norm_(model->parameters(), c)", [](Loop& loop) { clip(loop, loop.net->parameters()); }, {right, sharded, over_slices, own, own}},
      {"clip_grad_norm_() of the optimizer's tensors", [](Loop& loop) { clip(loop, loop.updated); }, {right, none, "clip_gradient_norm()", own, own}},
      {"clip_grad_value_() of the optimizer's tensors", &clip_values, {right, none, right, own, own}},
      {"optimizer.step(closure)", [](Loop& loop) { by_closure(loop, *loop.optimizer); }, {right, none, right, right, right}},
      {"LBFGS, whose closure returns reduced()",
       [](Loop& loop) {
         torch::optim::LBFGS lbfgs(loop.updated, torch::optim::LBFGSOptions(0.5).max_iter(4));
         by_closure(loop, lbfgs);
       },
       {right, none, "LBFGS", own, own}},
      {"several losses and backward passes",
       [](Loop& loop) {
         train(loop, [&](int64_t step) {
           loop.loss(step).backward();
           (loop.loss(step + 1) * 2).backward();
         });
       },
       {right, "2 times since the last update", right, right, right}},
      {"backward() with retain_graph",
       [](Loop& loop) {
         train(loop, [&](int64_t step) {
           const at::Tensor loss = loop.loss(step);
           loss.backward({}, true);
           loss.backward();
         });
       },
       {right, "2 times since the last update", right, right, right}},
      {"an optimizer over model->parameters()", &ordinary_optimizer, {right, sharded, over_slices, right, right}},
      {"a second DataParallel on the module", &wrap_again, {"is reduced by two", "is reduced by two", "is sharded", right, right}},
      {"freezing and unfreezing a layer", &freeze, {right, right, right, right, right}},
      {"add_param_group()", &add_group, {right, none, right, right, right}},
      {"model->to(dtype)", &convert, {"and was float64", "and was float64", "and was float64", "and was float64", "and was float64"}},
      {"model->clone()", &clone, {right, right, right, right, right}},
      {"torch::save(model)", &save, {right, right, "slices", right, right}},
      {"torch::load(model)", &load, {right, none, "slices", right, right}},
      {"evaluation between forward and backward pass", &evaluate, {right, right, right, right, right}},
      {"an exception in a forward pass, caught", &throw_in_forward, {right, right, right, right, right}},
      {"an exception in step(), caught", &throw_in_step, {right, none, right, right, right}},
  };
  return all;
}

std::map<std::string, at::Tensor> values_of(const Loop& loop) {
  const torch::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> values;
  for (const auto& each : loop.net->named_parameters()) values.emplace(each.key(), each.value().clone());
  return values;
}

void expect_outcome(const Habit& habit, Kind kind) {
  const std::string& outcome = habit.outcomes[static_cast<size_t>(kind)];
  if (outcome == none) return;
  const std::string what = tw::concat(habit.name, ", kind ", static_cast<int>(kind));
  const auto ours = make(kind);
  if (outcome != right && outcome != own) {
    const std::string error = message_of([&] { habit.act(*ours); });
    EXPECT_NE(error.find(outcome), std::string::npos) << what << ": " << error;
    return;
  }
  habit.act(*ours);
  if (outcome == own) return;
  PlainLoop plain;
  habit.act(plain);
  const auto expected = values_of(plain);
  for (const auto& [name, value] : values_of(*ours)) {
    EXPECT_LE((value - expected.at(name)).norm().item<double>(), 1e-12 * expected.at(name).norm().item<double>()) << what << ", " << name;
  }
}

class Habits : public ::testing::TestWithParam<Kind> {};

TEST_P(Habits, AreRightOrSaySoAtOnce) {
  for (const Habit& habit : all_habits()) {
    SCOPED_TRACE(habit.name);
    EXPECT_NO_THROW(expect_outcome(habit, GetParam()));
    world().barrier();
  }
}
INSTANTIATE_TEST_SUITE_P(Of, Habits, ::testing::ValuesIn(kinds));

}  // namespace habits_test
