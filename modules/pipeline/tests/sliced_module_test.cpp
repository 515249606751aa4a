// SPDX-License-Identifier: Apache-2.0
// Plans for modules of which each rank holds slices, on a mesh stage x tensor. (tests/composition trains such modules.)
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/library.h>
#include <torch/torch.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <tw/base/concat.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/mesh.hpp>
#include <tw/graph/dry_run.hpp>
#include <tw/pipeline/planned_model.hpp>
#include <tw/tensor_parallel.hpp>

namespace tw::pipeline {
namespace sliced_module_test {

using at::Tensor;
using tensor_parallel::ColumnParallelLinear;
using tensor_parallel::RowParallelLinear;
using testing::message_of;
using testing::world;

constexpr auto pause = std::chrono::milliseconds(20);

/// What an operator does in place of communicating: wait, or fail on one rank. In a dry run it does nothing.
enum class Act : int64_t { nothing, wait, fail };

int acts = 0;  // how often it has done so on this rank

Tensor act(const Tensor& x, int64_t what) {
  if (graph::DryRun::here()) return x * 1;
  ++acts;
  if (Act(what) == Act::wait) std::this_thread::sleep_for(pause);
  if (Act(what) == Act::fail && world().rank() == 3) throw std::runtime_error("the link is broken");
  return x * 1;
}

Tensor call_act(const Tensor& x, Act what) {
  static const torch::Library library = [] {
    torch::Library made(torch::Library::DEF, "sliced_module_test", std::nullopt, __FILE__, __LINE__);
    made.def("act(Tensor x, int what) -> Tensor", &act);
    return made;
  }();
  return c10::Dispatcher::singleton().findSchemaOrThrow("sliced_module_test::act", "").typed<decltype(act)>().call(x, static_cast<int64_t>(what));
}

/// Of 5 hidden features, the ranks hold different numbers.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(const Communicator& tensor, int64_t inputs = 4)
      : wide(register_module("wide", ColumnParallelLinear(tensor, inputs, 5))), narrow(register_module("narrow", RowParallelLinear(tensor, 5, 3))) {}
  Tensor forward(const Tensor& x) {
    Tensor y = torch::tanh(wide(x));
    if (more) y = torch::tanh(y);
    return narrow(what == Act::nothing ? y : call_act(y, what));
  }
  ColumnParallelLinear wide;
  RowParallelLinear narrow;
  bool more = false;
  Act what = Act::nothing;
};
TORCH_MODULE(Net);

/// For layers that all ranks draw alike.
Mesh make_mesh() {
  torch::manual_seed(1);
  return {world(), {{"stage", 2}, {"tensor", 2}}};
}

ModelPlan planned(const Communicator& comm, Net& net, const Tensor& example = torch::ones({4, 4})) {
  return plan_together(comm, *net, example, {.devices = 2, .micro_batches = 2, .stages = 2});
}

void expect_message(const std::string& part, const std::function<void()>& call) {
  const std::string message = message_of(call);
  EXPECT_NE(message.find(part), std::string::npos) << message;
  world().barrier();
}

TEST(SlicedModule, IsPlannedAlikeOnAllRanks) {
  const Mesh mesh = make_mesh();
  Net net(mesh["tensor"]);
  const ModelPlan plan = planned(mesh.comm(), net);
  EXPECT_TRUE(all_agree(world(), to_json(plan.result().profile)));
  EXPECT_TRUE(all_agree(world(), to_json(plan.best(), plan.result().profile)));
  const StageModel stage = plan.stages(*net, mesh.coordinate("stage"));
  for (const auto& [name, slice] : slices_by_name(*stage.module)) EXPECT_EQ(slice.global_shape, slices_by_name(*net).at(name).global_shape);
  EXPECT_EQ(slices_by_name(*stage.module).contains("wide.weight"), stage.module->named_parameters().contains("wide.weight"));
  EXPECT_EQ(slices_by_name(*stage.module).contains("narrow.weight"), stage.module->named_parameters().contains("narrow.weight"));
}

// Layers communicate on lines that nobody but the user has named.
TEST(SlicedModule, IsPlannedOnLinesOfTheUser) {
  torch::manual_seed(1);
  const Communicator line = world().split(world().rank() / 2, world().rank());
  Net net(line);
  const ModelPlan plan = planned(world(), net);
  EXPECT_TRUE(all_agree(world(), to_json(plan.result().profile)));
}

// In a profile by all ranks with slices, not in a profile by one of them.
TEST(SlicedModule, MeasuresCommunication) {
  const Mesh mesh = make_mesh();
  Net net(mesh["tensor"]);
  net->what = Act::wait;
  const double seconds = std::chrono::duration<double>(pause).count();
  const auto longest = [](const ModelPlan& plan) {
    double most = 0;
    for (const ProfiledOperator& op : plan.result().profile.operators) most = std::max(most, op.forward.of(4));
    return most;
  };
  EXPECT_GE(longest(planned(mesh.comm(), net)), seconds);
  acts = 0;
  if (world().rank() == 0) (void)plan(*net, torch::ones({4, 4}), {.devices = 1});
  EXPECT_EQ(acts, 0);
  world().barrier();
}

TEST(SlicedModule, IsRefusedOnAPartOfItsRanks) {
  const Mesh mesh = make_mesh();
  Net net(mesh["tensor"]);
  expect_message(
      "'world/dup/dup/stage' has 1 of the 2 ranks of 'world/dup/dup/tensor', which hold split layers together: pass the communicator of the",
      [&] { planned(mesh["stage"], net); });
}

TEST(SlicedModule, IsRefusedIfItDiffers) {
  const Mesh mesh = make_mesh();
  Net more(mesh["tensor"]);
  more->more = mesh.coordinate("tensor") == 1;
  expect_message("the operators of the module to plan", [&] { planned(mesh.comm(), more); });
  const int64_t inputs = mesh.coordinate("stage") == 1 ? 6 : 4;
  Net wide(mesh["tensor"], inputs);
  expect_message("the module to plan", [&] { planned(mesh.comm(), wide, torch::ones({4, inputs})); });
  const Communicator other = mesh["tensor"].dup();
  torch::nn::Sequential two(ColumnParallelLinear(mesh["tensor"], 4, 5), RowParallelLinear(other, 5, 3));
  expect_message("the model's split layers communicate on 'world/dup/dup/tensor' and on 'world/dup/dup/tensor/dup'",
                 [&] { plan_together(mesh.comm(), *two, torch::ones({4, 4}), {.devices = 2}); });
}

// The others wait for messages of the rank that fails.
TEST(SlicedModule, EndsOnAllRanksIfOneFailsWhileItMeasures) {
  const Mesh mesh = make_mesh();
  Net net(mesh["tensor"]);
  net->what = Act::fail;
  expect_message("failed on rank 3 of 'world/dup/dup': operator 3, sliced_module_test::act: the link is broken", [&] { planned(mesh.comm(), net); });
}

}  // namespace sliced_module_test
}  // namespace tw::pipeline
