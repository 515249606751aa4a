// SPDX-License-Identifier: Apache-2.0
// Habits of LibTorch's users around a model, and their outcome with each strategy. docs/strategies/habits.md shows this list.
#pragma once
#include "habit_loops.hpp"
#include "message_of.hpp"

#include <sstream>

namespace tw::testing::habits {

/// Outcome of a habit.
struct Outcome {
  enum class Kind {
    right,   ///< the parameters of one process with all samples
    error,   ///< immediate; `text` is the part of the message that names the fix
    other,   ///< allowed, but not what one process computes: `text` describes it
    absent,  ///< cannot be written; `text` explains why
  };
  Kind kind = Kind::right;
  std::string text = {};
  int min_ranks = 1;  ///< ranks needed to observe it
};

inline Outcome error(std::string text, int min_ranks = 1) { return {Outcome::Kind::error, std::move(text), min_ranks}; }
inline Outcome other(std::string text) { return {Outcome::Kind::other, std::move(text)}; }
inline Outcome absent(std::string text) { return {Outcome::Kind::absent, std::move(text)}; }
inline const Outcome right;

struct Habit {
  std::string name;  ///< Markdown
  std::function<void(Loop&)> act;
  std::vector<Outcome> outcomes;  ///< by strategy
};

struct StrategyColumn {
  std::string name;  ///< Markdown
  std::function<std::unique_ptr<Loop>()> make;
};

inline const std::vector<StrategyColumn>& strategies() {
  static const std::vector<StrategyColumn> all{{"`DataParallel`", [] { return std::make_unique<DataParallelLoop>(); }},
                                               {"`ShardedOptimizer`", [] { return std::make_unique<ShardedOptimizerLoop>(); }},
                                               {"`FullySharded`", [] { return std::make_unique<FullyShardedLoop>(); }},
                                               {"`LocalSgd`", [] { return std::make_unique<LocalSgdLoop>(); }},
                                               {"`DiLoCo`", [] { return std::make_unique<DiLoCoLoop>(); }},
                                               {"`Pipeline`", [] { return std::make_unique<PipelineLoop>(); }},
                                               {"`LayerParallel`", [] { return std::make_unique<LayerParallelLoop>(); }},
                                               {"`ParallelModel`, `data`", [] { return std::make_unique<ParallelModelLoop>("data"); }},
                                               {"`ParallelModel`, `shard`", [] { return std::make_unique<ParallelModelLoop>("shard"); }},
                                               {"`ParallelModel`, `stage`", [] { return std::make_unique<ParallelModelLoop>("stage"); }}};
  return all;
}

/// `pass` computes the gradients of each of three steps.
inline void train(Loop& loop, const std::function<void(int64_t step)>& pass) {
  for (int64_t step = 0; step < 3; ++step) {
    loop.zero_grad();
    pass(step);
    loop.step();
  }
}
inline void train(Loop& loop) {
  train(loop, [&](int64_t step) { loop.loss(step).backward(); });
}

inline void by_module(Loop& loop, bool to_none) {
  for (int64_t step = 0; step < 3; ++step) {
    loop.module().zero_grad(to_none);
    loop.loss(step).backward();
    loop.step();
  }
}

inline void clip(Loop& loop, const std::vector<at::Tensor>& tensors) {
  train(loop, [&](int64_t step) {
    loop.loss(step).backward();
    torch::nn::utils::clip_grad_norm_(tensors, 0.1);
  });
}

inline void clip_values(Loop& loop) {
  train(loop, [&](int64_t step) {
    loop.loss(step).backward();
    torch::nn::utils::clip_grad_value_(loop.updated, 0.02);
  });
}

inline void by_closure(Loop& loop, torch::optim::Optimizer& optimizer) {
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

inline void by_lbfgs(Loop& loop) {
  torch::optim::LBFGS lbfgs(loop.updated, torch::optim::LBFGSOptions(0.5).max_iter(4));
  by_closure(loop, lbfgs);
}

inline void two_losses(Loop& loop) {
  train(loop, [&](int64_t step) {
    loop.loss(step).backward();
    (loop.loss(step + 1) * 2).backward();
  });
}

inline void two_passes(Loop& loop) {
  train(loop, [&](int64_t step) {
    loop.loss(step).backward();
    loop.loss(step + 1).backward();
  });
}

inline void retain_graph(Loop& loop) {
  train(loop, [&](int64_t step) {
    const at::Tensor loss = loop.loss(step);
    loss.backward({}, true);
    loss.backward();
  });
}

inline void ordinary_optimizer(Loop& loop) {
  torch::optim::SGD sgd(loop.module().parameters(), 0.1);
  for (int64_t step = 0; step < 3; ++step) {
    sgd.zero_grad();
    loop.loss(step).backward();
    sgd.step();
    loop.after_step();
  }
}

inline void two_models(Loop& loop) {
  const auto second = loop.another();
  for (int64_t step = 0; step < 3; ++step) {
    for (Loop* each : {&loop, second.get()}) each->zero_grad();
    (loop.loss(step) + second->loss(step)).backward();
    for (Loop* each : {&loop, second.get()}) each->step();
  }
}

inline void wrap_again(Loop& loop) {
  const tw::DataParallel another(world(), loop.module(), {.reduction = tw::Reduction::mean});
  train(loop);
}

inline void freeze(Loop& loop) {
  for (int64_t step = 0; step < 3; ++step) {
    if (loop.head() != nullptr) loop.head()->parameters().front().requires_grad_(step != 1);
    loop.zero_grad();
    loop.loss(step).backward();
    loop.step();
  }
}

inline void add_group(Loop& loop) {
  std::vector<at::Tensor> tensors = loop.updated;
  std::vector<at::Tensor> added;
  if (!tensors.empty()) {
    added.push_back(tensors.back());
    tensors.pop_back();
  }
  loop.optimizer = std::make_shared<torch::optim::SGD>(tensors, 0.1);
  loop.optimizer->add_param_group(torch::optim::OptimizerParamGroup(added));
  train(loop);
}

inline void convert(Loop& loop) {
  loop.module().to(torch::kFloat);
  loop.zero_grad();
  const at::Tensor x = loop.samples(0).to(torch::kFloat);
  loop.loss_of(x, x.narrow(1, 0, 2)).backward();
  loop.step();
}

inline void expect_equal_parameters(const torch::nn::Module& a, const torch::nn::Module& b) {
  const auto of_b = b.parameters();
  ASSERT_EQ(a.parameters().size(), of_b.size());
  for (size_t i = 0; i < of_b.size(); ++i) EXPECT_TRUE(a.parameters()[i].equal(of_b[i])) << i;
}

inline void clone(Loop& loop) {
  train(loop);
  const auto copy = loop.module().clone();
  const at::Tensor x = Loop::all_samples(9);
  EXPECT_TRUE(copy->as<NetImpl>()->forward(x).equal(loop.output(x)));
}

inline void save_to(std::stringstream& file, const torch::nn::Module& module) {
  torch::serialize::OutputArchive archive;
  module.save(archive);
  archive.save_to(file);
}
inline void load_from(std::stringstream& file, torch::nn::Module& module) {
  torch::serialize::InputArchive archive;
  archive.load_from(file);
  module.load(archive);
}

inline void save(Loop& loop) {
  train(loop);
  std::stringstream file;
  save_to(file, loop.module());
  const auto copy = loop.another_module(first_seed + 1);
  load_from(file, *copy);
  expect_equal_parameters(*copy, loop.module());
}

inline void load(Loop& loop) {
  std::stringstream file;
  save_to(file, *loop.another_module(first_seed + 1));
  train(loop);
  load_from(file, loop.module());
  train(loop);
}

inline void eval_part(Loop& loop) {
  if (loop.gate() != nullptr) loop.gate()->eval();
  train(loop);
}

inline void evaluate(Loop& loop) {
  train(loop, [&](int64_t step) {
    const at::Tensor loss = loop.loss(step);
    loop.module().eval();
    {
      const torch::NoGradGuard no_grad;
      loop.output(loop.samples(step + 1));
    }
    loop.module().train();
    loss.backward();
  });
}

inline void evaluate_between_steps(Loop& loop) {
  train(loop);
  loop.module().eval();
  {
    const torch::NoGradGuard no_grad;
    loop.outputs.push_back(loop.output(Loop::all_samples(9)));
  }
  loop.module().train();
  train(loop);
}

/// As weight decay by hand, or a moving average of weights, does.
inline void change_in_place(Loop& loop, const std::vector<at::Tensor>& tensors) {
  train(loop);
  {
    const torch::NoGradGuard no_grad;
    for (const at::Tensor& each : tensors) each.mul_(0.9);
  }
  train(loop);
}

inline void fail_in(Loop& loop, bool Faults::* where) {
  train(loop, [&](int64_t step) {
    (*loop.faults).*where = true;
    EXPECT_ANY_THROW(loop.loss(step).backward());
    (*loop.faults).*where = false;
    loop.zero_grad();
    loop.loss(step).backward();
  });
}

inline void fail_in_step(Loop& loop) {
  train(loop);
  EXPECT_ANY_THROW(loop.failing_step());
  train(loop);
}

inline const std::vector<Habit>& all_habits() {
  static const Outcome its_own_zero_grad = error("call its step() and zero_grad()");
  static const Outcome clip_in_optimizer = error("ShardedOptimizerOptions::max_gradient_norm");
  static const Outcome no_effect = other("without effect: the gradients come in `step()`");
  static const Outcome over_slices = error("FullySharded::slices()");
  static const Outcome no_closure = absent("`step()` takes no closure");
  static const Outcome own = other("each rank's own");
  static const Outcome clip_pipeline = error("clip by Pipeline::clip_grad_norm()", 2);
  static const Outcome clip_layers = error("clip by tw::clip_gradient_norm(comm, gradients, max_norm)", 2);
  static const Outcome no_lbfgs = error("LBFGS", 2);
  static const Outcome once = error("accumulate under no_sync()");
  static const Outcome make_after = error("make it after all changes of the model");
  static const Outcome other_part = error("replicate it over the ranks that have the same part", 2);
  static const Outcome make_another = error("make a new Pipeline");
  static const Outcome own_pass = absent("`run()` makes the backward pass");
  static const Outcome own_step = absent("`train_step()` makes the backward pass");
  static const Outcome no_code = absent("the module's code does not run");
  static const Outcome sharded = error("of a ParallelModel", 2);
  static const Outcome elsewhere = error("belongs to another stage", 2);
  static const std::vector<Habit> all{
      // DataParallel, ShardedOptimizer, FullySharded, LocalSgd, DiLoCo, Pipeline, LayerParallel, ParallelModel along data, shard and stage
      {"`optimizer.zero_grad()`", [](Loop& loop) { train(loop); }, {right, right, right, right, right, right, right, right, right, right}},
      {"`model->zero_grad()`", [](Loop& loop) { by_module(loop, true); }, {right, right, right, right, right, right, right, right, right, right}},
      {"`model->zero_grad(false)`",
       [](Loop& loop) { by_module(loop, false); },
       {right, its_own_zero_grad, over_slices, right, right, right, right, right, sharded, right}},
      {"`clip_grad_norm_()` of `model->parameters()`",
       [](Loop& loop) { clip(loop, loop.module().parameters()); },
       {right, clip_in_optimizer, error("FullySharded::clip_gradient_norm()"), own, own, clip_pipeline, clip_layers, right, sharded, sharded}},
      {"`clip_grad_norm_()` of the optimizer's tensors",
       [](Loop& loop) { clip(loop, loop.updated); },
       {right, no_effect, error("clip by FullySharded::clip_gradient_norm()"), own, own, clip_pipeline, clip_layers, right, sharded, sharded}},
      {"`clip_grad_value_()` of the optimizer's tensors", &clip_values, {right, no_effect, right, own, own, right, right, right, right, right}},
      {"`optimizer.step(closure)`",
       [](Loop& loop) { by_closure(loop, *loop.optimizer); },
       {right, no_closure, right, right, right, right, right, right, right, right}},
      {"LBFGS, whose closure returns `tw::reduced()`",
       &by_lbfgs,
       {right, absent("refused when it is made"), error("LBFGS"), own, own, no_lbfgs, no_lbfgs, right, no_lbfgs, no_lbfgs}},
      {"several losses and backward passes", &two_losses, {right, once, right, right, right, own_pass, right, own_step, own_step, own_step}},
      {"two passes, and then an update", &two_passes, {right, once, right, right, right, right, right, right, right, right}},
      {"`backward()` with `retain_graph`", &retain_graph, {right, once, right, right, right, own_pass, right, own_step, own_step, own_step}},
      {"an optimizer over `model->parameters()`",
       &ordinary_optimizer,
       {right, error("is sharded"), over_slices, right, right, right, right, right, sharded, right}},
      {"two models in one backward pass", &two_models, {right, right, right, right, right, own_pass, right, own_step, own_step, own_step}},
      {"a second `DataParallel` on the module",
       &wrap_again,
       {error("make one for all trained parameters"), error("make one for all trained parameters"), error("is or was sharded"), right, right,
        other_part, other_part, error("make one for all trained parameters", 2), error("is or was sharded", 2), error("without values", 2)}},
      {"freezing and unfreezing a layer", &freeze, {right, right, right, right, right, right, right, right, right, right}},
      {"`add_param_group()`", &add_group, {right, absent("made by its factory"), right, right, right, right, right, right, right, right}},
      {"`model->to(dtype)`",
       &convert,
       {make_after, make_after, make_after, make_after, make_after, right, right, error("make it after all changes of the model", 2),
        error("make it after all changes of the model", 2), elsewhere}},
      {"`model->clone()`", &clone, {right, right, right, right, right, error("whole_on_root()"), error("serial_on_root()"), right, right, elsewhere}},
      {"`torch::save(model)`",
       &save,
       {right, right, error("save FullySharded::shards()"), right, right, right, right, right, error("a ParallelModel by its save()", 2), elsewhere}},
      {"`torch::load(model)`", &load, {right, right, error("slices"), right, right, right, right, right, error("slices", 2), elsewhere}},
      {"`eval()` of a part",
       &eval_part,
       {right, right, right, right, right, right, right, right, right, error("call eval() of a part before parallelize()", 2)}},
      {"an evaluation between a forward and its backward pass",
       &evaluate,
       {right, right, right, right, right, own_pass, right, own_step, own_step, own_step}},
      {"`eval()`, an evaluation, `train()`", &evaluate_between_steps, {right, right, right, right, right, right, right, right, right, right}},
      {"the optimizer's tensors changed in place",
       [](Loop& loop) { change_in_place(loop, loop.updated); },
       {right, error("did not make the same updates", 2), right, right, right, right, right, right, right, right}},
      {"`model->parameters()` changed in place",
       [](Loop& loop) { change_in_place(loop, loop.module().parameters()); },
       {right, right, over_slices, right, right, right, right, right, error("ParallelModel::parameters()", 2), elsewhere}},
      {"an exception in a forward pass, caught",
       [](Loop& loop) { fail_in(loop, &Faults::in_forward); },
       {right, right, right, right, right, make_another, right, right, right, no_code}},
      {"an exception in a backward pass, caught",
       [](Loop& loop) { fail_in(loop, &Faults::in_backward); },
       {right, right, right, right, right, make_another, right, right, right, no_code}},
      {"an exception in `step()`, caught", &fail_in_step, {right, right, right, right, right, right, right, right, right, right}},
  };
  return all;
}

}  // namespace tw::testing::habits
