// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/sub.h>

#include <tw/base/contract.hpp>
#include <tw/parameter_server/downpour.hpp>
#include <utility>

#include "centre.hpp"
#include "flat_parameters.hpp"

namespace tw::parameter_server {

void DownpourOptions::validate() const {
  TW_EXPECTS(push_interval >= 1, "push_interval must be at least 1 step, got ", push_interval);
  TW_EXPECTS(pull_interval >= 1, "pull_interval must be at least 1 step, got ", pull_interval);
  TW_EXPECTS(initial_delay >= 0, "initial_delay must be at least 0 steps, got ", initial_delay);
  TW_EXPECTS(prefetch_lead >= 0 && prefetch_lead <= pull_interval, "prefetch_lead must be 0 to pull_interval, ", pull_interval, ", got ",
             prefetch_lead);
  TW_EXPECTS(rule.size() <= 1, "the servers follow one rule, got ", rule.size());
}

Downpour::Downpour(const Communicator& comm, std::vector<at::Tensor> parameters, const DownpourOptions& options)
    : Worker(
          comm, std::move(parameters), options.roles, [&](const Crew&) {
            options.validate();
            return options.rule;
          }, options.share_memory),
      options_(options) {
  Downpour::begin_anew();
}

void Downpour::begin_anew() {
  if (options_.rule.empty()) {
    before_ = parameters().values();
  } else {
    gathered_ = parameters().zeros();
  }
}

bool Downpour::step() {
  const at::NoGradGuard no_grad;
  if (!options_.rule.empty()) parameters().add_gradients_to(gathered_);
  const int64_t shared = ++steps_ - options_.initial_delay;
  if (shared <= 0) return false;
  if (shared % options_.push_interval == 0) push_rest();
  const int64_t until_pull = options_.pull_interval - 1 - (shared - 1) % options_.pull_interval;
  if (until_pull == options_.prefetch_lead % options_.pull_interval && options_.prefetch_lead < options_.pull_interval) servers().prefetch();
  const bool takes_over = until_pull == 0 && servers().has_prefetched();
  if (takes_over) {
    const at::Tensor c = servers().pull();
    if (options_.rule.empty()) before_ = at::sub(c, learnt());  // what is not pushed yet is pushed the next time
    parameters().set(c);
  }
  if (until_pull == 0 && options_.prefetch_lead == options_.pull_interval) servers().prefetch();  // for the next time
  return takes_over;
}

at::Tensor Downpour::learnt() const { return options_.rule.empty() ? at::sub(parameters().values(), before_) : gathered_; }

void Downpour::push_rest() {
  const at::NoGradGuard no_grad;
  servers().push(learnt());
  begin_anew();
}

}  // namespace tw::parameter_server
