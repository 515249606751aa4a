// SPDX-License-Identifier: Apache-2.0
// Replicas of several ranks: groups along `data`, or models in parts. Those that meet through servers take turns, so that one process can make the
// same updates and exchanges in the same order.
#include "models_in_parts.hpp"

#include <limits>
#include <numeric>
#include <tw/comm/replicas.hpp>

namespace groups_test {

using namespace tw::testing::parts;
using tw::testing::squares;
using tw::testing::three_epochs;
using tw::testing::world;
using tw::train::Meeting;
using tw::train::ReplicaOptions;
using tw::train::Resume;
using tw::train::ServerAlgorithm;
using tw::train::State;
using tw::train::Summary;

constexpr int64_t samples = 31;
constexpr int64_t period = 2;  // of 6 updates in an epoch
constexpr int64_t updates = 18;

/// Two replicas, if the ranks lie on `axes`.
struct Layout {
  std::vector<tw::MeshAxis> axes;
  int64_t ranks_per_group = 1;
  bool in_parts = true;

  Mesh mesh() const { return {world(), axes}; }
};

/// On four ranks each replica has two, on eight ranks two along `data` and two along another axis.
std::vector<Layout> layouts() {
  const int half = world().size() / 2;
  const auto along = [&](int shard, int split, int stages) {
    return Layout{{{"data", half}, {"shard", shard}, {"tensor", split}, {"stage", stages}}, half / 2};
  };
  return {{{{"data"}}, half, /*in_parts=*/false}, along(2, 1, 1), along(1, 2, 1), along(1, 1, 2)};
}

Model model_on(const Mesh& mesh, bool in_parts) { return in_parts ? model_of(split_model(split_pipeline(mesh))) : model_of(whole_net()); }

Options options_for(const std::string& name, const ReplicaOptions& replicas) {
  Options options = three_epochs(name);
  options.global_batch = 5;
  options.accumulation = 1;
  options.drop_last = true;
  options.replicas = replicas;
  options.shard.unit_bytes = 200;
  options.resume = Resume::fresh;
  return options;
}

/// Lets one group update after the other, and notes which samples each group used in which update. The ranks must be on one node, where servers have
/// applied a push when it returns.
struct InTurns : tw::train::Hook {
  InTurns(int group, int groups) : mine(group), all(groups), used(torch::zeros({groups, updates, samples}, torch::kDouble)) {}

  void on_sample(State& state) override {
    if (state.batch.inputs.numel() == 0) return;  // an inner stage's
    const at::Tensor is_here = first_numbers.unsqueeze(1).eq(state.batch.inputs.select(1, 0)).any(1);
    used[mine][state.step].masked_fill_(is_here, 1);
  }
  void on_backward(State& /*state*/) override { wait(mine); }
  void on_update(State& /*state*/) override { wait(all - mine); }
  static void wait(int turns) {
    for (int turn = 0; turn < turns; ++turn) world().barrier();
  }

  int mine;
  int all;
  at::Tensor used;
  at::Tensor first_numbers = squares(samples).inputs().select(1, 0);  // they identify samples
};

/// Whether all ranks of a group have the same parameters after each update.
struct Comparison : tw::train::Hook {
  Comparison(const tw::Communicator& group, const Model& of) : comm(group), model(of) {}
  void on_update(State& /*state*/) override {
    for (const auto& each : model.parameters) equal = tw::compare_replicas(comm, each.tensor.detach()).identical && equal;
  }
  const tw::Communicator& comm;
  const Model& model;
  bool equal = true;
};

struct TrainedInTurns {
  Summary summary;
  at::Tensor used;
  bool equal_in_groups = true;
};

TrainedInTurns train_in_turns(const Layout& layout, const Options& options) {
  const Mesh mesh = layout.mesh();
  const Model model = model_on(mesh, layout.in_parts);
  const int place = mesh["data"].rank();
  const auto ranks_per_group = static_cast<int>(options.replicas.ranks_per_group);
  InTurns turns(place / ranks_per_group, mesh["data"].size() / ranks_per_group);
  const tw::Communicator group = world().split(turns.mine, world().rank());
  Comparison comparison(group, model);
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const auto data = squares(samples);
  Trainer trainer(mesh, model, sgd, tw::train::regression(), data, data, options, &data);
  trainer.add(turns);
  if (!layout.in_parts) trainer.add(comparison);
  TrainedInTurns result{trainer.run(), turns.used, true};
  tw::allreduce(world(), result.used, tw::ReduceOp::max);
  result.equal_in_groups = comparison.equal;
  return result;
}

/// The groups, their servers and the exchanges in one process.
class OneProcess {
 public:
  OneProcess(int groups, ServerAlgorithm algorithm) : algorithm_(algorithm), centre_(flat(whole_net())) {
    for (int i = 0; i < groups; ++i) {
      nets_.push_back(whole_net());
      before_.push_back(centre_);
      optimizers_.push_back(std::make_unique<torch::optim::SGD>(nets_.back()->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9)));
    }
  }

  /// @param used the samples of each group in this update, [groups, samples]
  void update(int64_t step, const at::Tensor& used) {
    const auto data = squares(samples);
    for (size_t i = 0; i < nets_.size(); ++i) {
      optimizers_[i]->zero_grad();
      const at::Tensor errors = (nets_[i]->forward(data.inputs()) - data.targets()).square().squeeze(1);
      const at::Tensor loss = (errors * used[static_cast<int64_t>(i)]).sum() / used.sum() * static_cast<double>(nets_.size());
      loss.backward();
      optimizers_[i]->step();
      if ((step + 1) % period == 0) exchange(i);
    }
  }
  void end_epoch() {
    for (size_t i = 0; i < nets_.size(); ++i) set(i, centre_);
  }
  double loss() {
    const auto data = squares(samples);
    return (nets_[0]->forward(data.inputs()) - data.targets()).square().mean().item<double>();
  }

 private:
  static at::Tensor flat(torch::nn::Sequential net) { return torch::nn::utils::parameters_to_vector(net->parameters()).detach().clone(); }
  void set(size_t i, const at::Tensor& values) {
    const torch::NoGradGuard no_grad;
    torch::nn::utils::vector_to_parameters(values.clone(), nets_[i]->parameters());
    before_[i] = values;
  }
  void exchange(size_t i) {
    const at::Tensor x = flat(nets_[i]);
    if (algorithm_ == ServerAlgorithm::downpour) {
      centre_ = centre_ + (x - before_[i]);
      return set(i, centre_);
    }
    const at::Tensor pull = 0.9 / static_cast<double>(nets_.size()) * (centre_ - x);
    centre_ = centre_ - pull;
    set(i, x + pull);
  }

  ServerAlgorithm algorithm_;
  at::Tensor centre_;
  std::vector<torch::nn::Sequential> nets_;
  std::vector<at::Tensor> before_;
  std::vector<std::unique_ptr<torch::optim::SGD>> optimizers_;
};

TEST(Groups, ExchangeWithServersAsInOneProcess) {
  for (const auto algorithm : {ServerAlgorithm::easgd, ServerAlgorithm::downpour}) {
    for (const Layout& layout : layouts()) {
      const std::string what = tw::concat(static_cast<int>(algorithm), " on ", layout.mesh().shape().describe());
      const ReplicaOptions replicas{
          .meet = Meeting::parameter_server, .ranks_per_group = layout.ranks_per_group, .period = period, .algorithm = algorithm};
      const TrainedInTurns ours = train_in_turns(layout, options_for("turns", replicas));
      EXPECT_EQ(ours.used.sum().item<double>(), 90) << what;
      EXPECT_TRUE(ours.equal_in_groups) << what;
      OneProcess expected(2, algorithm);
      for (int64_t step = 0; step < updates; ++step) {
        expected.update(step, ours.used.select(1, step));
        if ((step + 1) % 6 == 0) expected.end_epoch();
      }
      ASSERT_EQ(ours.summary.test.front().first, "loss");
      EXPECT_NEAR(ours.summary.test.front().second, expected.loss(), tolerance * expected.loss()) << what;
      ASSERT_TRUE(ours.summary.servers.has_value());
      const auto& staleness = ours.summary.servers->staleness;
      const int64_t exchanging = layout.in_parts ? world().size() / layout.ranks_per_group : 2;
      EXPECT_GE(std::accumulate(staleness.begin(), staleness.end(), int64_t{0}), exchanging * 9) << what;
    }
  }
}

// In the middle of a period.
TEST(Groups, ResumeWithServersWithTheSameBits) {
  const auto resume = [](const Layout& layout, ServerAlgorithm algorithm) {
    Options options = options_for(
        "turns_resumed", {.meet = Meeting::parameter_server, .ranks_per_group = layout.ranks_per_group, .period = period, .algorithm = algorithm});
    options.checkpoint.every_steps = 3;
    options.checkpoint.keep = 9;
    const Summary whole = train_in_turns(layout, options).summary;
    leave_the_first_checkpoint(options);
    options.resume = Resume::resume;
    const Summary resumed = train_in_turns(layout, options).summary;
    EXPECT_EQ(resumed.steps, updates);
    EXPECT_EQ(resumed.test, whole.test) << static_cast<int>(algorithm) << " on " << layout.mesh().shape().describe();
  };
  for (const Layout& layout : layouts()) resume(layout, ServerAlgorithm::easgd);
  resume(layouts().front(), ServerAlgorithm::downpour);
  resume(layouts().back(), ServerAlgorithm::downpour);
}

// In the middle of a period, where the ranks of the new groups come from different ones.
TEST(Groups, OfAnotherSizeResumeWithTheMean) {
  const Mesh mesh(world(), {{"data"}});
  const int ranks_per_group = world().size() / 2;
  const tw::Communicator group = world().split(world().rank() / ranks_per_group, world().rank());
  for (const ReplicaOptions& replicas : {ReplicaOptions{.meet = Meeting::local_sgd, .period = 50},
                                         ReplicaOptions{.meet = Meeting::parameter_server, .period = 4, .algorithm = ServerAlgorithm::easgd}}) {
    Options options = options_for("other_groups", replicas);
    options.checkpoint.every_steps = 3;
    options.checkpoint.keep = 9;
    (void)train_a_part(mesh, model_of(whole_net()), options, 6);
    leave_the_first_checkpoint(options);
    options.resume = Resume::resume;
    options.replicas.ranks_per_group = ranks_per_group;
    const Model model = model_of(whole_net());
    torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05).momentum(0.9));
    const auto data = squares(samples);
    Trainer trainer(mesh, model, sgd, tw::train::regression(), data, data, options, &data);
    Comparison comparison(group, model);
    trainer.add(comparison);
    EXPECT_EQ(trainer.run().steps, updates);
    EXPECT_TRUE(comparison.equal) << static_cast<int>(replicas.meet);
  }
}

// Nothing is left to meet for.
TEST(Groups, OneGroupIsOneProcess) {
  for (const Layout& layout : layouts()) {
    const Mesh mesh = layout.mesh();
    Options options = clipped("one_group");
    options.replicas = {.meet = Meeting::parameter_server, .ranks_per_group = mesh["data"].size(), .period = 4};
    options.shard.unit_bytes = 200;
    const Summary ours = train(mesh, model_on(mesh, layout.in_parts), options).summary;
    options.replicas.ranks_per_group = 1;
    options.name = "one_group_alone";
    expect_equal(ours, train(alone(), model_of(whole_net()), options).summary, mesh.shape().describe());
  }
}

/// The mean over targets, each weighted by itself.
tw::train::Objective weighted() {
  return {.loss = [](const at::Tensor& outputs, const at::Tensor& targets) { return (targets * (outputs - targets).square()).sum() / targets.sum(); },
          .weight = [](const at::Tensor& targets) { return targets.sum().item<double>(); }};
}

// Two replicas, whose ranks divide the parameters or keep them whole.
TEST(Groups, MeetSeldomAsReplicasInShardsDo) {
  for (const auto& [meet, objective] : {std::pair(Meeting::local_sgd, tw::train::regression()), std::pair(Meeting::diloco, weighted())}) {
    Options options = options_for("groups", {.meet = meet, .period = 4});
    options.clip.norm = 0.05;
    const Mesh shards(world(), {{"data", 2}, {"shard"}});
    const Summary expected = train(shards, model_of(whole_net()), options, objective).summary;
    options.replicas.ranks_per_group = world().size() / 2;
    const Mesh mesh(world(), {{"data"}});
    expect_equal(train(mesh, model_of(whole_net()), options, objective).summary, expected, tw::concat(static_cast<int>(meet)));
  }
}

// A loss that is not finite on one rank, though its gradient is.
TEST(Groups, SkipAnUpdateTogether) {
  const Mesh mesh(world(), {{"data"}});
  const int ranks_per_group = world().size() / 2;
  const tw::Communicator group = world().split(world().rank() / ranks_per_group, world().rank());
  const at::Tensor target = squares(samples).targets()[0];
  const tw::train::Objective objective{.loss = [target](const at::Tensor& outputs, const at::Tensor& targets) {
    const at::Tensor loss = torch::mse_loss(outputs, targets);
    return targets.eq(target).any().item<bool>() ? loss + std::numeric_limits<double>::infinity() : loss;
  }};
  Options options = options_for("skipping", {.meet = Meeting::local_sgd, .ranks_per_group = ranks_per_group, .period = 50});
  options.epochs = 1;
  options.non_finite = tw::train::NonFinite::skip;
  const Model model = model_of(whole_net());
  torch::optim::SGD sgd(model.tensors(), 0.05);
  const auto data = squares(samples);
  Trainer trainer(mesh, model, sgd, objective, data, data, options);
  Comparison comparison(group, model);
  trainer.add(comparison);
  EXPECT_EQ(trainer.run().skipped_steps, 1);
  EXPECT_TRUE(comparison.equal);
}

TEST(Groups, DivideTheRanksAlongData) {
  const auto refuse = [] {
    const Options options = options_for("uneven_groups", {.meet = Meeting::local_sgd, .ranks_per_group = world().size() - 1});
    (void)train({world(), {{"data"}}}, model_of(whole_net()), options);
  };
  const std::string error = tw::testing::message_of(refuse);
  const std::string expected =
      tw::concat("replicas.ranks_per_group is ", world().size() - 1, ", which does not divide the number of ranks along mesh.data, ", world().size());
  EXPECT_NE(error.find(expected), std::string::npos) << error;
}

}  // namespace groups_test
