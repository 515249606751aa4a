// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/agreement.hpp>
#include <tw/parameter_server/worker.hpp>

#include "centre.hpp"
#include "flat_parameters.hpp"

namespace tw::parameter_server {

Worker::Worker(const Communicator& comm, std::vector<at::Tensor> parameters, const Roles& roles, const RulesOf& rules, bool share_memory) {
  const Crew crew = agreed_crew(comm, roles);
  const std::vector<Rule> followed = on_all_ranks(comm, "making a worker of parameter servers", [&] {
    parameters_ = std::make_unique<FlatParameters>(std::move(parameters));
    return rules(crew);
  });
  expect_same_on_all_ranks(comm, "the parameters that workers train", lines_of(parameters_->specs()));
  centre_ = std::make_unique<Centre>(comm, crew, parameters_->values(), followed, share_memory);
  parameters_->set(centre_->pull());
  comm.barrier();  // all have begun at the same place before anyone pushes
}

Worker::~Worker() = default;

void Worker::finish() {
  if (centre_->trains()) push_rest();
  parameters_->set(centre_->finish());
  begin_anew();
}

const Communicator& Worker::group() const noexcept { return centre_->group(); }
const ShardedTensor& Worker::centre() const { return centre_->tensor(); }
int64_t Worker::served_bytes() const { return centre_->served_bytes(); }
const Traffic& Worker::traffic() const noexcept { return centre_->traffic(); }
std::vector<NamedShard> Worker::shards(const std::string& name) const { return centre_->shards(name); }

void Worker::restore(const std::vector<NamedShard>& shards) {
  centre_->restore(shards);
  begin_anew();
}

}  // namespace tw::parameter_server
