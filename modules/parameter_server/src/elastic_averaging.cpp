// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/sub.h>

#include <tw/parameter_server/elastic_averaging.hpp>

#include "centre.hpp"
#include "flat_parameters.hpp"

namespace tw::parameter_server {

void visit(ElasticOptions& options, OptionVisitor& visitor) {
  visitor.field("period", options.period, at_least(1), {.meaning = "steps from one elastic step to the next", .unit = "steps"});
  visitor.field("beta", options.beta, {.least = 0, .most = 1, .excludes_least = true}, {.meaning = "moving rate of all workers together"});
  visitor.field("share_memory", options.share_memory, {.meaning = "whether to access servers on this node directly in shared memory"});
}
void ElasticOptions::validate() const { expect_none(out_of_bounds(*this)); }

ElasticAveraging::ElasticAveraging(const Communicator& comm, std::vector<at::Tensor> parameters, const ElasticOptions& options)
    : Worker(
          comm, std::move(parameters), options.roles,
          [&] {
            options.validate();
            return std::vector<Rule>{rules::add()};
          },
          options.share_memory),
      options_(options),
      alpha_(options.beta / servers().roles().workers()) {}

bool ElasticAveraging::step() {
  if (++steps_ % options_.period != 0) return false;
  elastic_step();
  return true;
}

// finish() replaces the parameters by the centre, which would lose the steps since the last exchange.
void ElasticAveraging::push_rest() {
  if (steps_ % options_.period != 0) elastic_step();
}

void ElasticAveraging::elastic_step() {
  const at::NoGradGuard no_grad;
  const at::Tensor x = parameters().values();
  const at::Tensor pull = at::sub(servers().pull(), x).mul_(alpha_);  // alpha d
  parameters().set(at::add(x, pull));
  servers().push(pull.neg());
}

}  // namespace tw::parameter_server
