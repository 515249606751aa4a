// SPDX-License-Identifier: Apache-2.0
// FullySharded over the parameters of a pipeline's stage, on 2 shards x 2 stages: equal to one process, and how often units are gathered and reduced.
//
// FullySharded reduces at the end of each backward pass of autograd: once per micro-batch, and once per micro-batch and segment if a stage recomputes
// its segments one at a time. Under no_sync(), followed by join_backward(), its pass is the update.
//
// What does not work, beyond the refusals below:
// - Parameters tied between stages without join_backward(): each backward pass ends with a broadcast between the stages, for which stage 0 would have
//   to come while it waits for a cotangent: a deadlock. With it, two calls of run() without zero_grad() between them: each stage but the first drops
//   the gradient of the first call, so that the tied values drift apart.
// - Different numbers of micro-batches: without resident units, the ranks gather in different orders. If run() has returned on a rank, it may wait in
//   join_backward() for a rank that has failed along the other axis.
// - FullySharded of a list of parameters (not of the pipeline) over the replicas of a stage: the stage's reducer reads gradients that have no memory.
//
// Tolerance: |ours - reference| <= 1e-12 |reference| in the 2-norm of each parameter, in float64. The two differ in the order of summation over 16
// rows: a few times 1.1e-16 times the square root of the terms, which three updates with momentum make at most 1e-13 of a smooth network.
#include "mpi_test.hpp"

#include <tw/base/concat.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/mesh.hpp>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/data_parallel/fully_sharded.hpp>
#include <tw/models/gpt.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/pipeline/planned_model.hpp>

#include "message_of.hpp"

namespace tw::pipeline {
namespace sharded_stages_test {

using at::Tensor;
using testing::message_of;
using testing::world;

constexpr int micro_batches = 4;
constexpr int64_t rows = 8;              // per shard coordinate
constexpr int64_t blocks_per_stage = 3;  // each of them a unit
constexpr int64_t width = 8;
const Loss mean_square = torch::nn::MSELoss();

struct LayerImpl : torch::nn::Module {
  LayerImpl() : linear(register_module("linear", torch::nn::Linear(width, width))) { to(torch::kDouble); }
  Tensor forward(const Tensor& x) { return torch::tanh(linear->forward(x)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Layer);

/// Begins with the same random numbers at each call. @param tied whether the first and the last block are one layer
std::vector<BlockFactory> blocks(bool tied = false) {
  torch::manual_seed(5);
  std::vector<BlockFactory> made(2 * blocks_per_stage, block([] { return Layer(); }));
  if (tied) made.front() = made.back() = block([shared = Layer()] { return shared; });
  return made;
}

Tensor batch_of(int64_t step, int64_t which, int64_t count) {
  torch::manual_seed(static_cast<uint64_t>(100 + 2 * step + which));
  return torch::randn({count, width}, torch::kDouble);
}
auto momentum() { return torch::optim::SGDOptions(0.1).momentum(0.9); }

struct Setting {
  std::string name;
  Recompute recompute = Recompute::none;
  bool stays_gathered = false;  // until the optimizer changes the slices
  bool reduces_once = false;    // run() makes local passes, and join_backward() reduces their sum
};

/// The stage of this rank, trained.
class Stage {
 public:
  Stage(const Setting& setting, std::unique_ptr<Pipeline> pipeline, const Mesh& mesh, FullyShardedOptions options)
      : setting_(setting),
        mesh_(mesh),
        pipeline_(std::move(pipeline)),
        sharded_(mesh["shard"], *pipeline_, with(std::move(options))),
        sgd_(sharded_.slices(), momentum()) {}

  /// @param x, y the rows of this shard coordinate. @return their mean loss
  double pass(const Tensor& x, const Tensor& y, const Loss& loss) {
    sgd_.zero_grad();
    if (!setting_.reduces_once) return pipeline_->run(x, y, loss);
    std::optional<DataParallel::NoSync> local(sharded_.parallel().no_sync());
    const double result = pipeline_->run(x, y, loss);
    local.reset();
    sharded_.parallel().join_backward();
    return result;
  }
  void update() { sgd_.step(); }
  Pipeline& pipeline() { return *pipeline_; }
  FullySharded& sharded() { return sharded_; }

  /// A parameter's values on this rank must equal those on the ranks of `holders`, bit for bit.
  static void expect_equal_bits(const Communicator& holders, const Tensor& values, const std::string& name) {
    const Tensor all = torch::zeros({holders.size(), values.numel()}, torch::kDouble);
    allgather(holders, values.detach().flatten().clone(), all);
    for (int rank = 1; rank < holders.size(); ++rank) EXPECT_TRUE(all[rank].equal(all[0])) << name << " on rank " << rank;
  }
  void expect_equals(const torch::OrderedDict<std::string, Tensor>& expected) {
    for (const auto& mine : pipeline_->named_parameters()) {
      const Tensor ours = mine.value().detach().clone();  // gathered
      const Tensor theirs = expected[mine.key()].detach();
      EXPECT_LE((ours - theirs).norm().item<double>(), 1e-12 * theirs.norm().item<double>()) << setting_.name << ", " << mine.key();
      expect_equal_bits(mesh_["shard"], ours, concat(setting_.name, ", ", mine.key()));
    }
  }

 private:
  FullyShardedOptions with(FullyShardedOptions options) const {
    if (setting_.stays_gathered) options.resident_bytes = 1 << 20;
    return options;
  }

  const Setting setting_;
  const Mesh& mesh_;
  std::unique_ptr<Pipeline> pipeline_;
  FullySharded sharded_;
  torch::optim::SGD sgd_;
};

PipelineOptions options_of(const Setting& setting) {
  return {.schedule = one_forward_one_backward(2, micro_batches), .recompute = {setting.recompute, setting.recompute}};
}
Mesh shards_and_stages() { return Mesh(world(), {{"shard", 2}, {"stage", 2}}); }

Stage stage_of_blocks(const Setting& setting, const Mesh& mesh, bool tied = false, Reduction reduction = Reduction::mean) {
  auto pipeline = std::make_unique<Pipeline>(mesh["stage"], blocks(tied), options_of(setting));
  FullyShardedOptions options{.reduction = reduction};
  for (const auto& block : pipeline->named_children()) options.units.push_back(block.key());
  return Stage(setting, std::move(pipeline), mesh, options);
}

/// All blocks in one process.
struct Whole {
  explicit Whole(bool tied = false) {
    for (const BlockFactory& each : blocks(tied)) {
      made.push_back(each());
      module.register_module(std::to_string(made.size() - 1), made.back().module);
    }
    for (const Tensor& p : module.parameters()) {
      if (std::none_of(parameters.begin(), parameters.end(), [&](const Tensor& known) { return known.is_same(p); })) parameters.push_back(p);
    }
    sgd.emplace(parameters, momentum());
  }
  double pass(Tensor x, const Tensor& y) {
    sgd->zero_grad();
    for (const Block& each : made) x = each.forward(x);
    const Tensor loss = torch::mse_loss(x, y);
    loss.backward();
    return loss.item<double>();
  }

  torch::nn::Module module;
  std::vector<Block> made;
  std::vector<Tensor> parameters;  // each once
  std::optional<torch::optim::SGD> sgd;
};

/// The mean of the losses of both shard coordinates, weighted by rows.
double mean_loss(const Mesh& mesh, double loss, double share) {
  const Tensor mean = torch::tensor(loss * share, torch::kDouble);
  allreduce(mesh["shard"], mean, ReduceOp::sum);
  return mean.item<double>();
}

struct Counts {
  int64_t gathered;
  int64_t reduced;  // number of reductions of all units
  bool operator==(const Counts&) const = default;
};

/// Of the last one of three updates, on this rank.
Counts counts_of(const Setting& setting) {
  const Mesh mesh = shards_and_stages();
  Stage stage = stage_of_blocks(setting, mesh);
  Whole whole;
  int64_t gathered = 0;
  int64_t bytes = 0;
  for (int64_t step = 0; step < 3; ++step) {
    const Tensor x = batch_of(step, 0, 2 * rows);
    const Tensor y = batch_of(step, 1, 2 * rows);
    const int64_t begin = mesh.coordinate("shard") * rows;
    gathered = stage.sharded().gatherings();
    bytes = stage.sharded().parallel().reducer().payload_bytes();
    const double loss = stage.pass(x.narrow(0, begin, rows), y.narrow(0, begin, rows), mean_square);
    EXPECT_NEAR(mean_loss(mesh, loss, 0.5), whole.pass(x, y), 1e-12) << setting.name;
    gathered = stage.sharded().gatherings() - gathered;
    bytes = stage.sharded().parallel().reducer().payload_bytes() - bytes;
    stage.update();
    whole.sgd->step();
  }
  stage.expect_equals(whole.module.named_parameters());
  int64_t all_units = 0;
  for (const auto& unit : stage.sharded().parallel().plan().buckets) all_units += unit.numel * 8;
  EXPECT_EQ(bytes % all_units, 0);
  return {gathered, bytes / all_units};
}

/// With U units and M micro-batches today's FullySharded gathers each unit about twice a micro-batch: M (2 U - 2) times an update on the last stage,
/// where the backward pass finds the forward pass's last two units. U times is enough.
TEST(ShardedStages, EqualOneProcessAndAreGatheredAndReducedThisOften) {
  using enum Recompute;
  struct Case {
    Setting setting;
    Counts first, last;  // stages
  };
  for (const auto& [setting, first, last] : std::vector<Case>{
           {{"plain"}, {15, 4}, {16, 4}},
           {{"selective recomputation", selective}, {21, 12}, {20, 12}},
           {{"full recomputation", full}, {20, 4}, {16, 4}},
           {{"gathered once", none, true}, {3, 4}, {3, 4}},
           {{"reduced once", none, false, true}, {10, 1}, {10, 1}},
           {{"gathered and reduced once", none, true, true}, {3, 1}, {3, 1}},
           {{"gathered and reduced once, full recomputation", full, true, true}, {3, 1}, {3, 1}},
           {{"gathered and reduced once, selective recomputation", selective, true, true}, {3, 1}, {3, 1}},
       }) {
    const Counts found = counts_of(setting);
    const Counts& expected = world().rank() % 2 == 0 ? first : last;
    EXPECT_EQ(found, expected) << setting.name << ": " << found.gathered << " gathered, " << found.reduced << " reduced";
  }
}

TEST(ShardedStages, WithTiedLayersEqualOneProcessIfTheyReduceOnce) {
  for (const bool stays_gathered : {false, true}) {
    const Setting setting{concat("tied, gathered once: ", stays_gathered), Recompute::none, stays_gathered, true};
    const Mesh mesh = shards_and_stages();
    Stage stage = stage_of_blocks(setting, mesh, true);
    Whole whole(true);
    for (int64_t step = 0; step < 3; ++step) {
      const Tensor x = batch_of(step, 0, 2 * rows);
      const Tensor y = batch_of(step, 1, 2 * rows);
      const int64_t begin = mesh.coordinate("shard") * rows;
      stage.pass(x.narrow(0, begin, rows), y.narrow(0, begin, rows), mean_square);
      whole.pass(x, y);
      const double norm = torch::nn::utils::clip_grad_norm_(whole.parameters, 0.05);
      EXPECT_GT(norm, 0.1) << "clipped";
      EXPECT_NEAR(stage.sharded().clip_gradient_norm(0.05), norm, 1e-12 * norm) << "over both axes, each element once";
      stage.update();
      whole.sgd->step();
    }
    stage.expect_equals(whole.module.named_parameters());
    const auto mine = stage.pipeline().named_parameters();
    Stage::expect_equal_bits(world(), mine[mesh.coordinate("stage") == 0 ? "0.linear.weight" : "5.linear.weight"], "the tied weight");
  }
}

/// 8 and 3 rows: the second coordinate has one micro-batch less.
TEST(ShardedStages, MayHaveUnequalRowsIfTheyGatherAndReduceOnce) {
  const Mesh mesh = shards_and_stages();
  const int shard = mesh.coordinate("shard");
  const int64_t begin = shard == 0 ? 0 : 8;
  const int64_t count = shard == 0 ? 8 : 3;
  Stage stage = stage_of_blocks({"unequal rows", Recompute::none, true, true}, mesh, false, Reduction::sample_weighted);
  stage.sharded().parallel().set_samples(count);
  Whole whole;
  for (int64_t step = 0; step < 3; ++step) {
    const Tensor x = batch_of(step, 0, 11);
    const Tensor y = batch_of(step, 1, 11);
    const double loss = stage.pass(x.narrow(0, begin, count), y.narrow(0, begin, count), mean_square);
    EXPECT_NEAR(mean_loss(mesh, loss, static_cast<double>(count) / 11), whole.pass(x, y), 1e-12);
    stage.update();
    whole.sgd->step();
  }
  stage.expect_equals(whole.module.named_parameters());
  Stage many = stage_of_blocks({"a gathering per use"}, mesh);
  const std::string message =
      message_of<Error>([&] { many.pass(batch_of(0, 0, 11).narrow(0, begin, count), batch_of(0, 1, 11).narrow(0, begin, count), mean_square); });
  if (mesh.coordinate("stage") == 0) {
    EXPECT_NE(message.find("the ranks use parameters in different orders"), std::string::npos) << message;
  }
}

/// A captured module: the interpreter's operators gather. Its token embedding is tied to the output layer.
TEST(ShardedStages, OfAPlannedModuleEqualOneProcess) {
  const Mesh mesh = shards_and_stages();
  const auto make = [] {
    torch::manual_seed(5);
    models::Gpt gpt(models::GptOptions{.vocabulary = 11, .context = 6, .width = 8, .heads = 2, .blocks = 2});
    gpt->to(torch::kDouble);
    return gpt;
  };
  models::Gpt gpt = make();
  models::Gpt whole = make();
  const Tensor tokens = torch::randint(11, {2 * rows, 6}, torch::kLong);
  ModelPlan plan = plan_together(world(), *gpt, tokens.narrow(0, 0, rows), {.devices = 2, .batch = rows, .micro_batches = micro_batches});
  Plan halves{.hash = plan.result().profile.hash, .batch = rows, .micro_batches = micro_batches, .stages = {StagePlan{}, StagePlan{}}};
  const int operators = static_cast<int>(plan.result().profile.operators.size());
  for (int i = 0; i < operators; ++i) halves.stages[i < operators / 2 ? 0 : 1].operators.push_back(i);
  plan.use(halves);
  Stage stage({"planned", Recompute::none, false, true}, std::make_unique<Pipeline>(mesh["stage"], *gpt, plan), mesh,
              {.reduction = Reduction::mean, .unit_bytes = 2000});
  torch::optim::SGD sgd(whole->parameters(), momentum());
  const auto loss = [](const Tensor& y, const Tensor& t) { return torch::cross_entropy_loss(y.flatten(0, 1), t.flatten()); };
  for (int64_t step = 0; step < 3; ++step) {
    const Tensor mine = tokens.narrow(0, mesh.coordinate("shard") * rows, rows);
    const double ours = stage.pass(mine, mine, loss);
    sgd.zero_grad();
    const Tensor expected = loss(whole->forward(tokens), tokens);
    expected.backward();
    EXPECT_NEAR(mean_loss(mesh, ours, 0.5), expected.item<double>(), 1e-12);
    stage.update();
    sgd.step();
  }
  stage.expect_equals(whole->named_parameters());
}

TEST(ShardedStages, RefuseWhatOnlyWholeGradientsAllow) {
  const Mesh mesh = shards_and_stages();
  Stage stage = stage_of_blocks({"plain"}, mesh);
  stage.pass(batch_of(0, 0, rows), batch_of(0, 1, rows), mean_square);
  const std::string saved = message_of<c10::Error>([&] { (void)stage.pipeline().shards(); });
  EXPECT_NE(saved.find("are sharded over all ranks"), std::string::npos) << saved;
  const std::string clipped = message_of<ContractError>([&] { stage.pipeline().clip_grad_norm(1); });
  EXPECT_NE(clipped.find("is sharded, and not in the parameter's .grad()"), std::string::npos) << clipped;
}

/// Replicas of a stage reduce whole gradients themselves.
TEST(ShardedStages, RefuseReplicasOfAStage) {
  const Pipeline replicas(world(), blocks(), {.schedule = one_forward_one_backward(2, micro_batches), .replicas = {2, 2}});
  const Communicator of_stage = world().split(replicas.stages().front(), world().rank());
  const std::string message = message_of<ContractError>([&] { const FullySharded sharded(of_stage, replicas, {.reduction = Reduction::mean}); });
  EXPECT_NE(message.find("must be the same on all ranks"), std::string::npos) << message;
}

}  // namespace sharded_stages_test
}  // namespace tw::pipeline
