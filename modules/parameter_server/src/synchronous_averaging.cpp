// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/zeros_like.h>

#include <tw/parameter_server/synchronous_averaging.hpp>

#include "centre.hpp"
#include "flat_parameters.hpp"

namespace tw::parameter_server {

void visit(SynchronousAveragingOptions& options, OptionVisitor& visitor) {
  double warn_after = options.warn_after.count();
  visitor.field("warn_after", warn_after, {.least = 0}, {.meaning = "a wait that takes longer is logged", .unit = "s", .may_differ = true});
  visitor.field("share_memory", options.share_memory, {.meaning = "servers of this node are read and written in memory"});
  options.warn_after = Seconds(warn_after);
}
void SynchronousAveragingOptions::validate() const { expect_none(out_of_bounds(*this)); }

// The servers hold the mean of the last p pushes, one of each worker. Nobody pushes again before having pulled it, so it stands until all have.
SynchronousAveraging::SynchronousAveraging(const Communicator& comm, std::vector<at::Tensor> parameters, const SynchronousAveragingOptions& options)
    : Worker(
          comm, std::move(parameters), options.roles,
          [&](const Crew& crew) {
            options.validate();
            return std::vector<Rule>{rules::mean(crew.workers())};
          },
          options.share_memory),
      options_(options) {}

bool SynchronousAveraging::step() {
  const at::Tensor gradients = parameters().zeros();
  parameters().add_gradients_to(gradients);
  servers().push(gradients);
  servers().wait_for_all(++steps_, options_.warn_after, false);
  parameters().set_gradients(servers().pull());
  return true;
}

void SynchronousAveraging::finish() {
  servers().finish();
  begin_anew();
}

/// A mean to which some workers had pushed already is one for nobody: all push for the next one.
void SynchronousAveraging::restore(const std::vector<NamedShard>& shards) {
  std::vector<NamedShard> begun = shards;
  for (NamedShard& each : begun) {
    if (each.kind != ShardKind::parameter) each.tensor = at::zeros_like(each.tensor);
  }
  Worker::restore(begun);
}

}  // namespace tw::parameter_server
