// SPDX-License-Identifier: Apache-2.0
// Replicas that train apart, each divided over the other axes of a mesh, and meet every second update by local SGD or DiLoCo: as many processes that
// each train one replica. Parameters agree to 1e-12 (SGD) in float64; all ranks along `data` have the same bits.
#include "mpi_test.hpp"

#include <cstdlib>
#include <tw/comm/full_tensors.hpp>
#include <tw/comm/replicas.hpp>
#include <tw/data_parallel/diloco.hpp>
#include <tw/data_parallel/join.hpp>
#include <tw/data_parallel/local_sgd.hpp>

#include "mesh/cells.hpp"

namespace mesh_meetings_test {

using namespace tw::testing::mesh;
using tw::testing::world;

constexpr int64_t updates = 4;
constexpr int64_t period = 2;
constexpr double outer_rate = 0.7;
constexpr double outer_momentum = 0.9;

enum class Meeting { local_sgd, diloco };

std::vector<Batch> batches_of(const TableModel& model, int places, int64_t update) {
  torch::manual_seed(static_cast<uint64_t>(300 + update));
  std::vector<Batch> batches;
  for (int place = 0; place < places; ++place) batches.push_back(model.batch(4));
  return batches;
}

/// Updates for which a replica has samples.
int64_t updates_of(const Settings& settings, int replica) { return updates - (settings.joined ? replica % 2 : 0); }

/// One process a replica, and the meetings by their formulas.
class Apart {
 public:
  Apart(const TableModel& model, const Settings& settings, Meeting meeting, int replicas, int shards)
      : model_(model), settings_(settings), meeting_(meeting), shards_(shards) {
    for (int i = 0; i < replicas; ++i) {
      OneProcess process = model.one_process(settings, 1);
      parameters_.push_back(process.module->parameters());
      replicas_.emplace_back(std::make_unique<Reference>(std::move(process), model.loss(), settings, false));
    }
    for (const at::Tensor& each : parameters_[0]) {
      anchors_.push_back(each.detach().clone());
      momenta_.push_back(torch::zeros_like(each));
    }
  }

  void step(int64_t update) {
    const std::vector<Batch> all = batches_of(model_, static_cast<int>(replicas_.size()) * shards_, update);
    for (size_t i = 0; i < replicas_.size(); ++i) {
      if (update >= updates_of(settings_, static_cast<int>(i))) continue;
      const auto begin = all.begin() + static_cast<int64_t>(i) * shards_;
      replicas_[i]->step(std::vector<Batch>(begin, begin + shards_), update);
    }
    if ((update + 1) % period == 0) meet();
  }
  std::map<std::string, at::Tensor> state() const { return replicas_[0]->state(); }

 private:
  void meet() {
    const torch::NoGradGuard no_grad;
    for (size_t p = 0; p < anchors_.size(); ++p) {
      at::Tensor mean = torch::zeros_like(anchors_[p]);
      for (const Tensors& of_replica : parameters_) mean += of_replica[p] / static_cast<double>(parameters_.size());
      if (meeting_ == Meeting::diloco) {
        const at::Tensor gradient = anchors_[p] - mean;
        momenta_[p].mul_(outer_momentum).add_(gradient);
        mean = anchors_[p] - outer_rate * (gradient + outer_momentum * momenta_[p]);
      }
      anchors_[p].copy_(mean);
      for (const Tensors& of_replica : parameters_) of_replica[p].copy_(mean);
    }
  }

  const TableModel& model_;
  const Settings& settings_;
  Meeting meeting_;
  int shards_;
  std::vector<Tensors> parameters_;
  std::vector<std::unique_ptr<Reference>> replicas_;
  Tensors anchors_;
  Tensors momenta_;
};

/// The ranks of a run: those that make each update together, with their mesh, and those that meet.
struct Lines {
  const tw::Mesh& mesh;
  const tw::Communicator& meeting;  ///< ranks with the same parts of the model
  int places;                       ///< of all replicas, with their own samples each
  int place;                        ///< this rank's
  int replica;                      ///< which this rank belongs to
};

std::map<std::string, at::Tensor> parameters_on(const Lines& lines, const TableModel& model, const Settings& settings, Meeting meeting,
                                                tw::ReplicaSync sync) {
  tw::ParallelOptions options = settings.options();
  options.replicas = sync;
  const tw::Mesh& mesh = lines.mesh;
  Parallel parallel = model.parallel(mesh, options);
  tw::ParallelModel& trained = parallel.model;
  const auto optimizer = settings.optimizer(trained.parameters());
  std::optional<tw::LocalSgd> local;
  std::optional<tw::DiLoCo> outer;
  // A stage may have no parameters.
  if (!trained.parameters().empty() && meeting == Meeting::local_sgd) {
    local.emplace(lines.meeting, trained.named_parameters(), tw::LocalSgdOptions{.period = period});
  } else if (!trained.parameters().empty()) {
    outer.emplace(lines.meeting, trained.named_parameters(),
                  tw::DiLoCoOptions{.period = period, .outer_learning_rate = outer_rate, .outer_momentum = outer_momentum});
  }
  int64_t update = 0;
  const auto has_samples = [&] { return update < updates_of(settings, lines.replica); };
  const int64_t steps = tw::join(mesh.comm(), has_samples, [&](bool trains) {
    if (trains) {
      const Batch batch = batches_of(model, lines.places, update).at(static_cast<size_t>(lines.place));
      optimizer->zero_grad();
      trained.train_step(batch.inputs, batch.targets, model.loss());
      optimizer->step();
    }
    ++update;
    if (local) local->step();
    if (outer) outer->step();
  });
  EXPECT_EQ(steps, updates);
  for (const at::Tensor& each : trained.parameters()) EXPECT_TRUE(tw::compare_replicas(lines.meeting, each.detach()).identical);
  std::vector<tw::NamedShard> shards = trained.shards();
  std::erase_if(shards, [](const tw::NamedShard& each) { return each.kind != tw::ShardKind::parameter; });
  std::map<std::string, at::Tensor> whole;
  tw::for_each_full_tensor(mesh.comm(), shards, [&](const std::string& name, const at::Tensor& values) { whole[name] = values.clone(); });
  return whole;
}

void expect_equal(const std::map<std::string, at::Tensor>& ours, Apart apart) {
  for (int64_t update = 0; update < updates; ++update) apart.step(update);
  std::map<std::string, at::Tensor> expected = apart.state();
  std::erase_if(expected, [&](const auto& each) { return !ours.contains(each.first); });
  EXPECT_FALSE(expected.empty());
  const auto [error, name] = largest_error(ours, expected);
  EXPECT_LE(error, 1e-12) << name;
}

// In every third cell, or with TW_ALL_CELLS in all of them, one replica has fewer samples than the other.
TEST(MeshMeetings, OfDividedReplicasAreThoseOfProcesses) {
  const bool all = std::getenv("TW_ALL_CELLS") != nullptr;
  int cell = 0;
  for (const TableModel& model : table_models()) {
    if (model.name != "gpt" && model.name != "split blocks" && model.name != "layers") continue;
    for (const tw::MeshShape& shape : shapes_of(world().size())) {
      if (along(shape, "data") == 1 || promise_of(model, shape).kind != Promise::Kind::equal) continue;
      for (const Meeting meeting : {Meeting::local_sgd, Meeting::diloco}) {
        ++cell;
        for (const bool joined : {false, true}) {
          if (!all && joined != (cell % 3 == 0)) continue;
          SCOPED_TRACE(
              tw::concat(model.name, " on ", shape.describe(), meeting == Meeting::diloco ? ", DiLoCo" : ", local SGD", joined ? ", joined" : ""));
          const Settings settings{.seed = 4, .micro_batches = 2, .joined = joined};
          const tw::Mesh mesh(world(), shape.axes());
          const int shards = along(shape, "shard");
          const int replica = mesh.coordinate("data");
          const int place = replica * shards + (shards > 1 ? mesh.coordinate("shard") : 0);
          const Lines lines{mesh, mesh["data"], along(shape, "data") * shards, place, replica};
          const auto ours = parameters_on(lines, model, settings, meeting, tw::ReplicaSync::independent);
          expect_equal(ours, Apart(model, settings, meeting, along(shape, "data"), shards));
        }
      }
    }
  }
}

// Two groups, each with a mesh of its own, whose ranks sum gradients in every update.
TW_TEST_ON(MeshMeetings, OfGroupsAreThoseOfProcesses, {.least = 4}) {
  const int half = world().size() / 2;
  for (const TableModel& model : table_models()) {
    if (model.name != "gpt") continue;
    for (const auto& [axis, places] : {std::pair("data", half), std::pair("shard", half), std::pair("stage", 1)}) {
      SCOPED_TRACE(axis);
      const Settings settings{.seed = 4, .micro_batches = 2};
      const tw::Mesh all(world(), {{"group", 2}, {axis, half}});
      const tw::Mesh mesh = all.sub({axis});
      const tw::Mesh same_parts =
          all.sub(axis == std::string("data") ? std::vector<std::string>{"group", "data"} : std::vector<std::string>{"group"});
      const int place = all.coordinate("group") * places + (places > 1 ? all.coordinate(axis) : 0);
      const Lines lines{mesh, same_parts.comm(), 2 * places, place, all.coordinate("group")};
      const auto ours = parameters_on(lines, model, settings, Meeting::diloco, tw::ReplicaSync::every_step);
      expect_equal(ours, Apart(model, settings, Meeting::diloco, 2, places));
    }
  }
}

}  // namespace mesh_meetings_test
