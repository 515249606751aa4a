// SPDX-License-Identifier: Apache-2.0
// Models in parts whose replicas meet seldom, or by parameter servers; and layers that stages share.
#include "models_in_parts.hpp"

#include <map>
#include <tw/comm/replicas.hpp>

namespace seldom_parts_test {

using namespace tw::testing::parts;
using tw::testing::three_epochs;
using tw::testing::world;

// One replica, so that nothing depends on who comes first; also from a checkpoint in the middle of a period, on another mesh.
TEST(SeldomParts, ServersOfPartsAreThoseOfOneProcess) {
  using tw::train::ServerAlgorithm;
  for (const auto& [algorithm, stages, split] :
       {std::tuple(ServerAlgorithm::downpour, 1, 1), std::tuple(ServerAlgorithm::downpour, 2, 1), std::tuple(ServerAlgorithm::easgd, 1, 2),
        std::tuple(ServerAlgorithm::easgd, 2, 2), std::tuple(ServerAlgorithm::ssp, 2, 1)}) {
    if (world().size() % (stages * split) != 0) continue;
    Options options = clipped("servers_alone");
    options.replicas = {.meet = tw::train::Meeting::parameter_server, .period = 4, .algorithm = algorithm, .staleness = 1};
    options.shard.unit_bytes = 200;
    const auto expected = train(alone(), model_of(whole_net()), options).summary;
    options.name = three_epochs("servers").name;
    options.checkpoint.every_steps = 5;
    options.checkpoint.keep = 9;
    options.resume = tw::train::Resume::fresh;
    const Mesh mesh(world(), {{"data", 1}, {"shard"}, {"tensor", split}, {"stage", stages}});
    const std::string what = tw::concat(static_cast<int>(algorithm), " on ", mesh.shape().describe());
    expect_equal(train(mesh, model_of(split_model(split_pipeline(mesh))), options).summary, expected, what);
    leave_the_first_checkpoint(options);
    // Of four parts one exchanges nothing, so that another mesh would begin a new period.
    const bool stays = world().size() % 2 != 0 || stages * split == 4;
    const Mesh other(world(), {{"data", 1}, {"shard"}, {"tensor", stays ? split : 2}, {"stage", stays ? stages : 1}});
    options.resume = tw::train::Resume::resume;
    expect_equal(train(other, model_of(split_model(split_pipeline(other))), options).summary, expected,
                 what + ", resumed on " + other.shape().describe());
  }
}

// Replicas that meet every four steps: each held together by some ranks, or by one.
TEST(SeldomParts, ReplicasInPartsMeetSeldomAsWholeOnesDo) {
  for (const auto kind : {tw::train::Meeting::local_sgd, tw::train::Meeting::diloco}) {
    for (const auto& [stages, split] : {std::pair(2, 1), std::pair(1, 2), std::pair(2, 2)}) {
      if (world().size() % (stages * split) != 0) continue;
      const int replicas = world().size() / (stages * split);
      const int group = world().rank() / replicas;
      const auto options = [&](const std::string& name) {
        Options chosen = clipped(name);
        chosen.replicas = {.meet = kind, .period = 4};
        chosen.checkpoint.every_epochs = 1;
        chosen.resume = tw::train::Resume::fresh;
        return chosen;
      };
      const Mesh whole(world().split(group, 0), {{"data"}});
      const auto expected = train(whole, model_of(whole_net()), options(tw::concat("seldom_whole", group))).summary;
      const Mesh mesh(world(), {{"data"}, {"tensor", split}, {"stage", stages}});
      const std::string what = tw::concat(static_cast<int>(kind), " on ", mesh.shape().describe());
      expect_equal(train(mesh, model_of(split_model(split_pipeline(mesh))), options("seldom")).summary, expected, what);
      for (const bool resumes : {false, true}) {
        Options interrupted = options("seldom");
        interrupted.resume = resumes ? tw::train::Resume::resume : tw::train::Resume::fresh;
        const auto summary = train_a_part(mesh, model_of(split_model(split_pipeline(mesh))), interrupted, 6);
        if (resumes) expect_equal(summary, expected, what + ", resumed");
      }
    }
  }
}

/// Whether ranks along `tensor` have the same values of what they do not divide, after each update.
struct Comparison : tw::train::Hook {
  Comparison(const tw::Communicator& along, const Model& of) : comm(along), model(of) {
    for (const auto& each : model_of(whole_net()).parameters) shapes[each.name] = each.tensor.sizes().vec();
  }
  void on_update(tw::train::State& /*state*/) override {
    for (const auto& each : model.parameters) {
      if (shapes.at(each.name) != each.tensor.sizes()) continue;
      ++compared;
      equal = tw::compare_replicas(comm, each.tensor.detach()).identical && equal;
    }
  }
  const tw::Communicator& comm;
  const Model& model;
  std::map<std::string, std::vector<int64_t>> shapes;
  int compared = 0;
  bool equal = true;
};

// Two replicas before and after, in the middle of a period, but of other ranks: each gets the mean.
TW_TEST_ON(SeldomParts, ReplicasOnAnotherMeshResumeWithTheMean, {.least = 4}) {
  Options options = clipped("another_mesh");
  options.replicas = {.meet = tw::train::Meeting::local_sgd, .period = 50};
  options.checkpoint.every_steps = 5;
  options.checkpoint.keep = 9;
  options.resume = tw::train::Resume::fresh;
  const Mesh before(world(), {{"data"}, {"tensor", 1}, {"stage", 2}});
  (void)train(before, model_of(split_model(split_pipeline(before))), options);
  leave_the_first_checkpoint(options);
  options.resume = tw::train::Resume::resume;
  const Mesh mesh(world(), {{"data"}, {"tensor", 2}, {"stage", 1}});
  const Model model = model_of(split_model(split_pipeline(mesh)));
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const auto data = tw::testing::squares(31);
  Trainer trainer(mesh, model, sgd, tw::train::regression(), data, data, options, &data);
  Comparison comparison(mesh["tensor"], model);
  trainer.add(comparison);
  EXPECT_TRUE(trainer.run().finished);
  EXPECT_GT(comparison.compared, 0);
  EXPECT_TRUE(comparison.equal);
}

// A layer shared by two stages that also have other layers: reduced by a ring over hosts, each stage would add its gradients in its own order; and
// each stage has servers of its own.
void expect_tied_stages_to_keep_the_same_bits(const char* axis, const tw::train::ReplicaOptions& replicas) {
  using namespace tw::pipeline;
  const int stages = world().size() % 2 == 0 ? 2 : 1;
  const Mesh mesh(world(), {{axis}, {"stage", stages}});
  const torch::nn::Linear shared(70, 70);
  const auto tied = block([shared] { return shared; });
  const std::vector<BlockFactory> blocks{block([] { return torch::nn::Linear(4, 70); }),  tied,
                                         block([] { return torch::nn::Tanh(); }),         block([] { return torch::nn::Linear(70, 73); }),
                                         block([] { return torch::nn::Linear(73, 70); }), tied,
                                         block([] { return torch::nn::Linear(70, 1); })};
  torch::manual_seed(6);
  const auto net = std::make_shared<Pipeline>(mesh["stage"], blocks, PipelineOptions{.schedule = one_forward_one_backward(stages, 2)});
  net->to(torch::kDouble);
  Options options = three_epochs("tied");
  options.replicas = replicas;
  const bool every_step = replicas.meet == tw::train::Meeting::every_step;
  options.shard.what = every_step ? tw::train::Sharded::optimizer : tw::train::Sharded::parameters;
  options.epochs = tw::testing::longer("TEST_UPDATES", 18) / 6;
  (void)train(mesh, model_of(net), options);
  int found = 0;
  for (const auto& parameter : net->named_parameters()) {
    if (parameter.value().sizes() != at::IntArrayRef{70, 70} || found++ > 0) continue;
    EXPECT_TRUE(tw::compare_replicas(world(), parameter.value()).identical) << parameter.key();
  }
  EXPECT_GE(found, 1);
}

TEST(SeldomParts, TiedStagesKeepTheSameBits) {
  expect_tied_stages_to_keep_the_same_bits("data", {});
  expect_tied_stages_to_keep_the_same_bits("data", {.meet = tw::train::Meeting::parameter_server, .period = 2});
  expect_tied_stages_to_keep_the_same_bits("shard", {});
}

TW_TEST_ON(SeldomParts, ServersOfTiedStagesAreNotDivided, {.least = 4}) {
  const auto train_them = [] { expect_tied_stages_to_keep_the_same_bits("shard", {.meet = tw::train::Meeting::parameter_server}); };
  EXPECT_NE(tw::testing::message_of(train_them).find("stages have a tied parameter"), std::string::npos);
}

}  // namespace seldom_parts_test
