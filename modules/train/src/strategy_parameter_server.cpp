// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/typed_objects.hpp>
#include <tw/gradients/model_parts.hpp>
#include <tw/parameter_server/downpour.hpp>
#include <tw/parameter_server/elastic_averaging.hpp>
#include <tw/parameter_server/stale_synchronous.hpp>
#include <tw/parameter_server/worker.hpp>

#include "flat_places.hpp"
#include "independent_replicas.hpp"

namespace tw::train {
namespace {

using namespace parameter_server;

void expect_nesterov(const torch::optim::Optimizer& optimizer) {
  for (const auto& group : optimizer.param_groups()) {
    const auto* sgd = dynamic_cast<const torch::optim::SGDOptions*>(&group.options());
    TW_EXPECTS(sgd != nullptr && sgd->nesterov(), "algorithm eamsgd needs torch::optim::SGD with Nesterov momentum");
  }
}

std::unique_ptr<Worker> worker_over(const Communicator& comm, const std::vector<at::Tensor>& parameters, const ReplicaOptions& o) {
  const Roles roles{.ranks_per_worker = static_cast<int>(o.ranks_per_group)};
  switch (o.algorithm) {
    case ServerAlgorithm::downpour:
      return std::make_unique<Downpour>(comm, parameters, DownpourOptions{.push_interval = o.period, .pull_interval = o.period, .roles = roles});
    case ServerAlgorithm::eamsgd:
    case ServerAlgorithm::easgd:
      return std::make_unique<ElasticAveraging>(comm, parameters, ElasticOptions{.period = o.period, .beta = o.beta, .roles = roles});
    case ServerAlgorithm::ssp:
      return std::make_unique<StaleSynchronous>(comm, parameters, StaleSynchronousOptions{.staleness = o.staleness, .roles = roles});
  }
  return nullptr;
}

/// "servers", plus underscores until it differs from the name of every part of the model; for checkpoints. Collective over `ranks.parts`.
std::string unused_name(const Ranks& ranks, const Model& model) {
  std::vector<std::string> names;
  for (const NamedTensor& each : model.all_tensors()) names.push_back(each.name);
  for (const auto& [alias, name] : model.aliases) names.push_back(alias);
  std::vector<std::vector<std::string>> of_parts{names};
  if (ranks.parts != nullptr) of_parts = allgather_objects(*ranks.parts, names);
  std::string name = "servers";
  const auto is_taken = [&](const std::string& other) { return other == name || other.starts_with(name + '.') || other.starts_with(name + '/'); };
  while (std::ranges::any_of(of_parts, [&](const auto& part) { return std::ranges::any_of(part, is_taken); })) name += '_';
  return name;
}

/// Tensors that several ranks of a replica train in the same way.
struct SharedTensors {
  const Communicator& holders;
  std::vector<OptimizedTensor> tensors;
};

/// Whether all holders train the same elements, in the same order: along `shard`, slices may lie elsewhere on each. Collective over the holders.
bool are_equal_elements(const SharedTensors& shared) {
  std::string text;
  for (const auto& [tensor, slices] : shared.tensors) {
    text += ';';
    for (const NamedShard& slice : slices) text += concat(at::IntArrayRef(slice.offsets), slice.tensor.sizes());
  }
  return all_agree(shared.holders, text);
}

/// Replicas train through servers, and meet only in finish(). The first rank of a group exchanges for the group. If several ranks hold a replica, the
/// ranks along `data` have their own servers for the tensors that they train. If several ranks of a replica train the same tensor, the first of them
/// exchanges it.
class ServerReplicas : public IndependentReplicas {
 public:
  explicit ServerReplicas(const StrategySetup& setup);

  void apply(const std::vector<NamedShard>& shards) override;
  Seconds exposed_time() const override { return exposed_ + part().sums().exposed_time(); }
  int64_t payload_bytes() const override { return (traffic().pushes + traffic().pulls) * bytes_ + shared_bytes_ + part().sums().payload_bytes(); }
  const Traffic* server_traffic() const override { return &traffic(); }

 private:
  bool after_step() override;
  void finish() override;
  void make_worker(const StrategySetup& setup);
  void find_shared(const StrategySetup& setup);
  void account_own(KnownMemory& known) const override;
  std::vector<NamedShard> own_shards() const override;
  /// A run of the flat tensor, or a count, as parts of the model.
  std::vector<NamedShard> placed(const NamedShard& run) const {
    return run.kind == ShardKind::counter ? std::vector{run} : places_in_model(run, served_);
  }
  const Traffic& traffic() const noexcept { return worker_ ? worker_->traffic() : no_traffic_; }
  /// Sends the tensors that this rank has exchanged to the other ranks of the replica, and receives theirs.
  void share();

  std::string name_;  // name of the servers' state in checkpoints
  OnCommunication on_communication_;
  std::vector<OptimizedTensor> served_;      // tensors that this rank exchanges
  int64_t bytes_ = 0;                        // bytes of these
  std::unique_ptr<Worker> worker_;           // null: this rank exchanges nothing
  std::shared_ptr<const ModelParts> parts_;  // null: this rank has all of its replica
  std::vector<SharedTensors> shared_;
  int64_t shared_bytes_ = 0;  // bytes that this rank has sent to other ranks of the replica
  Traffic no_traffic_;
  Seconds exposed_{0};
};

ServerReplicas::ServerReplicas(const StrategySetup& setup)
    : IndependentReplicas(setup), name_(unused_name(setup.ranks, setup.model)), on_communication_(setup.on_communication), served_(part().counted()) {
  if (setup.replicas.algorithm == ServerAlgorithm::eamsgd) expect_nesterov(setup.optimizer);
  if (setup.ranks.data.size() == setup.ranks.all.size()) {
    make_worker(setup);
  } else {  // an error along `data` is thrown on all ranks, so that no other one waits
    on_all_ranks(setup.ranks.all, "making workers of parameter servers", [&] { make_worker(setup); });
  }
  if (setup.ranks.parts != nullptr) find_shared(setup);
}

// Collective over the ranks along `data`.
void ServerReplicas::make_worker(const StrategySetup& setup) {
  std::vector<at::Tensor> served;
  for (const OptimizedTensor& each : served_) {
    served.push_back(each.tensor);
    bytes_ += static_cast<int64_t>(each.tensor.nbytes());
  }
  if (bytes_ > 0) worker_ = worker_over(setup.ranks.data, served, setup.replicas);
}

void ServerReplicas::find_shared(const StrategySetup& setup) {
  parts_ = model_parts(*setup.ranks.parts, *setup.model.trained);
  bool are_equal = true;
  for (const auto& [holders, names] : parts_->replicated) {
    SharedTensors& shared = shared_.emplace_back(SharedTensors{holders, {}});
    for (const std::string& name : names) {
      const auto trained = std::ranges::find(part().named(), name, &NamedTensor::name);
      if (trained != part().named().end()) shared.tensors.push_back(part().tensors()[static_cast<size_t>(trained - part().named().begin())]);
    }
    are_equal = are_equal_elements(shared) && are_equal;
  }
  on_all_ranks(setup.ranks.all, "finding the parameters that several ranks train", [&] {
    TW_EXPECTS(are_equal, "stages have a tied parameter, which ranks along `shard` divide differently in each stage: with parameter servers, leave ",
               "out `shard` or the tie");
  });
}

bool ServerReplicas::after_step() {
  const auto begin = std::chrono::steady_clock::now();
  const int64_t before = traffic().pushes + traffic().pulls;
  if (worker_) worker_->step();
  share();
  const auto end = std::chrono::steady_clock::now();
  exposed_ += end - begin;
  if (on_communication_ && traffic().pushes + traffic().pulls > before) on_communication_("exchange", 0, begin, end);
  return false;
}

void ServerReplicas::finish() {
  const Stopwatch watch;
  if (worker_) worker_->finish();
  share();
  exposed_ += watch.elapsed();
}

void ServerReplicas::share() {
  for (const auto& [holders, shared] : shared_) {
    std::vector<at::Tensor> tensors;
    for (const OptimizedTensor& each : shared) {
      tensors.push_back(each.tensor.detach());
      if (holders.rank() == 0) shared_bytes_ += static_cast<int64_t>(each.tensor.nbytes());
    }
    if (!tensors.empty()) broadcast(holders, tensors, Rank(0));
  }
  part().sums().parameters_written();
}

void ServerReplicas::account_own(KnownMemory& known) const {
  if (!worker_) return;
  for (const at::Tensor& each : worker_->retained_state()) known.add(MemoryUse::buffers, each);
  known.add(MemoryUse::buffers, worker_->served_bytes());
}

// Servers hold runs of one flat tensor. In a checkpoint these are parts of the model, which any mesh can load.
std::vector<NamedShard> ServerReplicas::own_shards() const {
  std::vector<NamedShard> shards;
  if (!worker_) return shards;
  for (const NamedShard& run : worker_->shards(name_)) append(shards, placed(run));
  return shards;
}

void ServerReplicas::apply(const std::vector<NamedShard>& shards) {
  IndependentReplicas::apply(shards);
  if (!worker_) return;
  const at::NoGradGuard no_grad;
  auto loaded = std::ranges::find_if(
      shards, [&](const NamedShard& shard) { return shard.name.starts_with(name_ + '.') || shard.name.starts_with(name_ + '/'); });
  const std::vector<NamedShard> runs = worker_->shards(name_);
  for (const NamedShard& run : runs) {
    for (const NamedShard& place : placed(run)) {
      TW_ASSERT(loaded != shards.end() && loaded->name == place.name);
      place.tensor.copy_((loaded++)->tensor);
    }
  }
  worker_->restore(runs);
}

}  // namespace

std::unique_ptr<Strategy> make_parameter_server(const StrategySetup& setup) { return std::make_unique<ServerReplicas>(setup); }

void add_parameter_server(StrategyMemory& memory, const ReplicaOptions& options, const MeshSizes& mesh, const ModelMemory& model) {
  const bool keeps_copy = options.algorithm == ServerAlgorithm::downpour || options.algorithm == ServerAlgorithm::ssp;
  const int exchange_copies = options.algorithm == ServerAlgorithm::ssp ? 2 : 3;
  const int64_t n = trained_bytes(model) / mesh.shard;
  const int64_t servers = std::max<int64_t>(1, mesh.data / options.ranks_per_group);
  memory.kept[MemoryUse::buffers] += n / servers + (keeps_copy ? n : 0);
  memory.update = std::max(memory.update, exchange_copies * n);
  memory.checkpoint += (n + model.frozen_bytes) / servers;
}

}  // namespace tw::train
