// SPDX-License-Identifier: Apache-2.0
#include "by_servers.hpp"

#include <torch/optim/sgd.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/parameter_server/downpour.hpp>
#include <tw/parameter_server/elastic_averaging.hpp>
#include <tw/parameter_server/stale_synchronous.hpp>
#include <tw/parameter_server/synchronous_averaging.hpp>

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
                                    const StrategyOptions& o) {
  switch (o.algorithm) {
    case ServerAlgorithm::downpour:
      return std::make_unique<Downpour>(comm, parameters, DownpourOptions{.push_interval = o.period, .pull_interval = o.period});
    case ServerAlgorithm::eamsgd: expect_nesterov(optimizer); [[fallthrough]];
    case ServerAlgorithm::easgd: return std::make_unique<ElasticAveraging>(comm, parameters, ElasticOptions{.period = o.period, .beta = o.beta});
    case ServerAlgorithm::ssp: return std::make_unique<StaleSynchronous>(comm, parameters, StaleSynchronousOptions{.staleness = o.staleness});
    case ServerAlgorithm::sync: return std::make_unique<SynchronousAveraging>(comm, parameters);
  }
  return nullptr;
}

}  // namespace

ByServers::ByServers(const Communicator& comm, const std::vector<NamedTensor>& tensors, const torch::optim::Optimizer& optimizer,
                     const Options& options)
    : averages_gradients_(options.strategy.algorithm == ServerAlgorithm::sync), on_exchange_(options.on_exchange) {
  synchronize(comm, tensors);  // what is not trained too
  std::vector<at::Tensor> trained;
  for (const NamedTensor& each : tensors) {
    if (each.tensor.requires_grad()) trained.push_back(each.tensor);
  }
  for (const at::Tensor& each : trained) bytes_ += static_cast<int64_t>(each.nbytes());
  worker_ = make_worker(comm, trained, optimizer, options.strategy);
}

void ByServers::average() {
  if (averages_gradients_) exchange();
}

bool ByServers::step() {
  if (!averages_gradients_) exchange();
  return false;
}

void ByServers::exchange() {
  const auto begin = std::chrono::steady_clock::now();
  const int64_t before = traffic().pushes + traffic().pulls;
  worker_->step();
  const auto end = std::chrono::steady_clock::now();
  exposed_ += end - begin;
  if (on_exchange_ && traffic().pushes + traffic().pulls > before) on_exchange_(begin, end);
}

void ByServers::finish() {
  const Stopwatch watch;
  worker_->finish();
  exposed_ += watch.elapsed();
}

void ByServers::restore(const std::vector<NamedShard>& all) {
  std::vector<NamedShard> own;
  std::ranges::copy_if(all, std::back_inserter(own), [](const NamedShard& shard) { return shard.name.starts_with("servers"); });
  worker_->restore(own);
}

int64_t ByServers::bytes_communicated() const noexcept { return (traffic().pushes + traffic().pulls) * bytes_; }

}  // namespace tw::train
