// SPDX-License-Identifier: Apache-2.0
#include <torch/optim/sgd.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/parameter_server/downpour.hpp>
#include <tw/parameter_server/elastic_averaging.hpp>
#include <tw/parameter_server/stale_synchronous.hpp>
#include <tw/parameter_server/worker.hpp>

#include "independent_replicas.hpp"

namespace tw::train {
namespace {

using namespace parameter_server;

void expect_nesterov(const torch::optim::Optimizer& optimizer) {
  for (const auto& group : optimizer.param_groups()) {
    const auto* sgd = dynamic_cast<const torch::optim::SGDOptions*>(&group.options());
    TW_EXPECTS(sgd != nullptr && sgd->nesterov(), "algorithm eamsgd is easgd with torch::optim::SGD and its Nesterov momentum");
  }
}

std::unique_ptr<Worker> make_worker(const Communicator& comm, const std::vector<at::Tensor>& parameters, const torch::optim::Optimizer& optimizer,
                                    const ReplicaOptions& o) {
  switch (o.algorithm) {
    case ServerAlgorithm::downpour:
      return std::make_unique<Downpour>(comm, parameters, DownpourOptions{.push_interval = o.period, .pull_interval = o.period});
    case ServerAlgorithm::eamsgd: expect_nesterov(optimizer); [[fallthrough]];
    case ServerAlgorithm::easgd: return std::make_unique<ElasticAveraging>(comm, parameters, ElasticOptions{.period = o.period, .beta = o.beta});
    case ServerAlgorithm::ssp: return std::make_unique<StaleSynchronous>(comm, parameters, StaleSynchronousOptions{.staleness = o.staleness});
  }
  return nullptr;
}

/// "servers", plus underscores until it differs from the name of every part of the model; for checkpoints.
std::string name_beside(const Model& model) {
  std::string name = "servers";
  const auto is_taken = [&](const std::string& other) { return other == name || other.starts_with(name + '.'); };
  const auto has_taken = [&](const NamedTensor& each) { return is_taken(each.name); };
  const auto is_alias_taken = [&](const auto& alias_and_name) { return is_taken(alias_and_name.first); };
  while (std::ranges::any_of(model.all_tensors(), has_taken) || std::ranges::any_of(model.aliases, is_alias_taken)) name += '_';
  return name;
}

/// Ranks train through servers, and meet only in finish().
class ServerReplicas : public IndependentReplicas {
 public:
  explicit ServerReplicas(const StrategySetup& setup);

  void apply(const std::vector<NamedShard>& shards) override;
  Seconds exposed_time() const override { return exposed_; }
  int64_t payload_bytes() const override { return (traffic().pushes + traffic().pulls) * bytes_; }
  const Traffic* server_traffic() const override { return &traffic(); }

 private:
  bool after_step() override {
    exchange();
    return false;
  }
  void finish() override;
  void account_own(KnownMemory& known) const override {
    for (const at::Tensor& each : worker_->kept()) known.add(MemoryUse::buffers, each);
    known.add(MemoryUse::buffers, worker_->served_bytes());
  }
  std::vector<NamedShard> own_shards() const override { return worker_->shards(name_); }
  const Traffic& traffic() const noexcept { return worker_->traffic(); }
  void exchange();

  std::string name_;  // name of the servers' state in checkpoints
  OnCommunication on_communication_;
  int64_t bytes_ = 0;  // of the parameters
  std::unique_ptr<Worker> worker_;
  Seconds exposed_{0};
};

ServerReplicas::ServerReplicas(const StrategySetup& setup)
    : IndependentReplicas(setup), name_(name_beside(setup.model)), on_communication_(setup.on_communication) {
  std::vector<at::Tensor> trained;
  for (const NamedTensor& each : setup.model.parameters) {
    if (each.tensor.requires_grad()) trained.push_back(each.tensor);
  }
  for (const at::Tensor& each : trained) bytes_ += static_cast<int64_t>(each.nbytes());
  worker_ = make_worker(setup.ranks.data, trained, setup.optimizer, setup.replicas);
}

void ServerReplicas::exchange() {
  const auto begin = std::chrono::steady_clock::now();
  const int64_t before = traffic().pushes + traffic().pulls;
  worker_->step();
  const auto end = std::chrono::steady_clock::now();
  exposed_ += end - begin;
  if (on_communication_ && traffic().pushes + traffic().pulls > before) on_communication_("exchange", 0, begin, end);
}

void ServerReplicas::finish() {
  const Stopwatch watch;
  worker_->finish();
  exposed_ += watch.elapsed();
}

void ServerReplicas::apply(const std::vector<NamedShard>& shards) {
  IndependentReplicas::apply(shards);
  std::vector<NamedShard> own;
  std::ranges::copy_if(shards, std::back_inserter(own),
                       [&](const NamedShard& shard) { return shard.name == name_ || shard.name.starts_with(name_ + '.'); });
  worker_->restore(own);
}

}  // namespace

std::unique_ptr<Strategy> make_parameter_server(const StrategySetup& setup) { return std::make_unique<ServerReplicas>(setup); }

void add_parameter_server(StrategyMemory& memory, const ReplicaOptions& options, const MeshSizes& mesh, const ModelMemory& model) {
  const bool keeps_copy = options.algorithm == ServerAlgorithm::downpour || options.algorithm == ServerAlgorithm::ssp;
  const int exchange_copies = options.algorithm == ServerAlgorithm::ssp ? 2 : 3;
  const int64_t n = trained_bytes(model);
  memory.kept[MemoryUse::buffers] += n / mesh.data + (keeps_copy ? n : 0);
  memory.update = std::max(memory.update, exchange_copies * n);
  memory.checkpoint += (n + model.frozen_bytes) / mesh.data;
}

}  // namespace tw::train
