// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/sub.h>

#include <tw/base/contract.hpp>
#include <tw/parameter_server/elastic_averaging.hpp>

#include "centre.hpp"
#include "flat_parameters.hpp"

namespace tw::parameter_server {

void ElasticOptions::validate() const {
  TW_EXPECTS(period >= 1, "period must be at least 1 step, got ", period);
  TW_EXPECTS(beta > 0 && beta <= 1, "beta must be above 0 and at most 1, got ", beta);
}

ElasticAveraging::ElasticAveraging(const Communicator& comm, std::vector<at::Tensor> parameters, const ElasticOptions& options)
    : Worker(
          comm, std::move(parameters), options.roles, [&](const Crew&) {
            options.validate();
            return std::vector<Rule>{rules::add()};
          },
          options.share_memory),
      options_(options),
      alpha_(options.beta / servers().crew().workers()) {}

bool ElasticAveraging::step() {
  if (++steps_ % options_.period != 0) return false;
  const at::NoGradGuard no_grad;
  const at::Tensor x = parameters().values();
  const at::Tensor pull = at::sub(servers().pull(), x).mul_(alpha_);  // alpha d
  parameters().set(at::add(x, pull));
  servers().push(pull.neg());
  return true;
}

}  // namespace tw::parameter_server
