// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/sub.h>

#include <tw/base/contract.hpp>
#include <tw/parameter_server/downpour.hpp>
#include <utility>

#include "centre.hpp"
#include "flat_parameters.hpp"

namespace tw::parameter_server {

void visit(DownpourOptions& options, OptionVisitor& visitor) {
  visitor.field("push_interval", options.push_interval, at_least(1), {.meaning = "steps from one push to the next", .unit = "steps"});
  visitor.field("pull_interval", options.pull_interval, at_least(1), {.meaning = "steps from one pull to the next", .unit = "steps"});
  visitor.field("initial_delay", options.initial_delay, at_least(0), {.meaning = "local steps before the first push", .unit = "steps"});
  visitor.field("prefetch_lead", options.prefetch_lead, at_least(0),
                {.meaning = "steps by which a pull begins before its values are used; at most `pull_interval`", .unit = "steps"});
  visitor.presence("rule", !options.rule.empty());
  visitor.field("share_memory", options.share_memory, {.meaning = "whether to access servers on this node directly in shared memory"});
}

void DownpourOptions::validate() const {
  expect_none(out_of_bounds(*this));
  TW_EXPECTS(prefetch_lead <= pull_interval, "prefetch_lead must be at most pull_interval, ", pull_interval, ", got ", prefetch_lead);
  TW_EXPECTS(rule.size() <= 1, "`rule` must contain at most one rule, got ", rule.size());
}

Downpour::Downpour(const Communicator& comm, std::vector<at::Tensor> parameters, const DownpourOptions& options)
    : Worker(
          comm, std::move(parameters), options.roles,
          [&] {
            options.validate();
            return options.rule;
          },
          options.share_memory),
      options_(options) {
  Downpour::restart();
}

void Downpour::restart() {
  if (options_.rule.empty()) {
    before_ = parameters().values();
  } else {
    gradient_sum_ = parameters().zeros();
  }
}

bool Downpour::step() {
  const at::NoGradGuard no_grad;
  if (!options_.rule.empty()) parameters().add_gradients_to(gradient_sum_);
  const int64_t shared = ++steps_ - options_.initial_delay;
  if (shared <= 0) return false;
  if (shared % options_.push_interval == 0) push_rest();
  const int64_t until_pull = options_.pull_interval - 1 - (shared - 1) % options_.pull_interval;
  if (until_pull == options_.prefetch_lead % options_.pull_interval && options_.prefetch_lead < options_.pull_interval) servers().prefetch();
  const bool takes_over = until_pull == 0 && servers().has_prefetched();
  if (takes_over) {
    const at::Tensor c = servers().pull();
    if (options_.rule.empty()) before_ = at::sub(c, pending_update());  // updates not pushed yet are pushed next time
    parameters().set(c);
  }
  if (until_pull == 0 && options_.prefetch_lead == options_.pull_interval) servers().prefetch();  // for the next pull
  return takes_over;
}

Worker::Position Downpour::position() const {
  return {.counts = {steps_, static_cast<int64_t>(servers().has_prefetched())}, .retained = options_.rule.empty() ? before_ : gradient_sum_};
}

void Downpour::resume_from(const Position& position) {
  steps_ = position.counts.at(0);
  (options_.rule.empty() ? before_ : gradient_sum_) = position.retained;
  if (position.counts.at(1) != 0) servers().prefetch();
}

at::Tensor Downpour::pending_update() const { return options_.rule.empty() ? at::sub(parameters().values(), before_) : gradient_sum_; }

void Downpour::push_rest() {
  const at::NoGradGuard no_grad;
  servers().push(pending_update());
  restart();
}

}  // namespace tw::parameter_server
