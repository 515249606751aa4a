// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tensor.h>

#include <tw/comm/collectives.hpp>
#include <tw/parameter_server/stale_synchronous.hpp>

#include "centre.hpp"
#include "flat_parameters.hpp"

namespace tw::parameter_server {

void visit(StaleSynchronousOptions& options, OptionVisitor& visitor) {
  double warn_after = options.warn_after.count();
  visitor.field("staleness", options.staleness, at_least(0), {.meaning = "steps by which a worker may be ahead of the slowest", .unit = "steps"});
  visitor.field("warn_after", warn_after, {.least = 0},
                {.meaning = "duration of a wait after which a warning names the late workers", .unit = "s", .may_differ = true});
  visitor.field("share_memory", options.share_memory, {.meaning = "whether to access servers on this node directly in shared memory"});
  options.warn_after = Seconds(warn_after);
}
void StaleSynchronousOptions::validate() const { expect_none(out_of_bounds(*this)); }

StaleSynchronous::StaleSynchronous(const Communicator& comm, std::vector<at::Tensor> parameters, const StaleSynchronousOptions& options)
    : Worker(
          comm, std::move(parameters), options.roles,
          [&] {
            options.validate();
            return std::vector<Rule>{rules::add()};
          },
          options.share_memory),
      options_(options) {
  StaleSynchronous::restart();
}

void StaleSynchronous::restart() {
  before_ = parameters().values();
  steps_ = 0;
}

/// Stores how many steps ago the others were seen, because clocks restart at 0.
Worker::Position StaleSynchronous::position() const { return {.counts = {steps_ - servers().slowest_seen()}}; }

void StaleSynchronous::resume_from(const Position& position) { servers().set_slowest_seen(-position.counts.at(0)); }

bool StaleSynchronous::step() {
  const at::NoGradGuard no_grad;
  const at::Tensor now = parameters().values();
  servers().push(at::sub(now, before_));
  servers().wait_for_push();  // others who read this worker's clock rely on the update being applied
  before_ = now;
  const int64_t needed = ++steps_ - options_.staleness;
  if (!agreed(servers().slowest_seen() < needed)) return false;
  servers().wait_for_all(needed, options_.warn_after);
  before_ = servers().pull();
  parameters().set(before_);
  return true;
}

bool StaleSynchronous::agreed(bool of_first_rank) const {
  if (group().size() == 1) return of_first_rank;
  const at::Tensor answer = at::tensor({static_cast<int64_t>(of_first_rank)}, at::kLong);
  broadcast(group(), answer, Rank(0));
  return answer.item<int64_t>() != 0;
}

}  // namespace tw::parameter_server
