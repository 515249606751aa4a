// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <iterator>
#include <tw/comm/agreement.hpp>
#include <tw/parameter_server/worker.hpp>

#include "centre.hpp"
#include "flat_parameters.hpp"

namespace tw::parameter_server {

Worker::Worker(const Communicator& comm, std::vector<at::Tensor> parameters, const Roles& roles, const MakeRules& rules, bool share_memory) {
  const RankRoles rank_roles = agreed_roles(comm, roles);
  const std::vector<Rule> followed = on_all_ranks(comm, "making a parameter-server worker", [&] {
    parameters_ = std::make_unique<FlatParameters>(std::move(parameters));
    return rules();
  });
  expect_same_on_all_ranks(comm, "the parameters that workers train", lines_of(parameters_->specs()));
  centre_ = std::make_unique<Centre>(comm, rank_roles, parameters_->values(), followed, share_memory);
  parameters_->set(centre_->pull());
  comm.barrier();  // all ranks start from the same values before any of them pushes
}

Worker::~Worker() = default;

void Worker::finish() {
  if (centre_->trains()) push_rest();
  parameters_->set(centre_->finish());
  restart();
}

const Communicator& Worker::group() const noexcept { return centre_->group(); }
const ShardedTensor& Worker::centre() const { return centre_->tensor(); }
int64_t Worker::served_bytes() const { return centre_->served_bytes(); }
const Traffic& Worker::traffic() const noexcept { return centre_->traffic(); }

std::vector<NamedShard> Worker::shards(const std::string& name) const {
  std::vector<NamedShard> all = centre_->shards(name);
  const Position now = position();
  if (now.counts.empty()) return all;
  all.push_back(whole(name + ".counts", at::tensor(now.counts, at::kLong), ShardKind::counter));
  all.back().on_reshard = OnReshard::drop;
  if (!now.retained.defined()) return all;
  all.push_back(whole(name + ".kept", now.retained, ShardKind::optimizer));
  all.back().on_reshard = OnReshard::mean;
  return all;
}

void Worker::restore(const std::vector<NamedShard>& shards) {
  const auto counts = std::ranges::find(shards, OnReshard::drop, &NamedShard::on_reshard);  // the counts that belong to this rank start there
  centre_->restore({shards.begin(), counts});
  restart();
  if (counts == shards.end()) return;
  const at::Tensor numbers = counts->tensor.contiguous();
  Position position{.counts = {numbers.const_data_ptr<int64_t>(), numbers.const_data_ptr<int64_t>() + numbers.numel()}};
  if (const auto retained = std::next(counts); retained != shards.end()) position.retained = retained->tensor.clone();
  resume_from(position);
}

}  // namespace tw::parameter_server
