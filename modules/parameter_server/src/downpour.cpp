// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/parameter_server/downpour.hpp>
#include <utility>

#include "centre.hpp"
#include "flat_parameters.hpp"

namespace tw::parameter_server {

void DownpourOptions::validate() const {
  TW_EXPECTS(lr > 0, "lr must be positive, got ", lr);
  TW_EXPECTS(push_interval >= 1, "push_interval must be at least 1 step, got ", push_interval);
  TW_EXPECTS(pull_interval >= 1, "pull_interval must be at least 1 step, got ", pull_interval);
  TW_EXPECTS(initial_delay >= 0, "initial_delay must be at least 0 steps, got ", initial_delay);
  TW_EXPECTS(prefetch_lead >= 0 && prefetch_lead <= pull_interval, "prefetch_lead must be 0 to pull_interval, ", pull_interval, ", got ",
             prefetch_lead);
  TW_EXPECTS(rule.size() <= 1, "the servers follow one rule, got ", rule.size());
}

namespace {

DownpourOptions validated(const DownpourOptions& options) {
  options.validate();
  return options;
}

}  // namespace

class Downpour::Impl {
 public:
  Impl(const Communicator& comm, std::vector<at::Tensor> parameters, const DownpourOptions& options)
      : options_(validated(options)),
        parameters_(std::move(parameters)),
        centre_(comm, agreed_crew(comm, options.roles), parameters_.values(), options.rule, options.share_memory),
        gathered_(parameters_.zeros()) {
    parameters_.set(centre_.pull());
    comm.barrier();  // all have begun at the same place before anyone pushes
  }

  void step() {
    parameters_.add_gradients_to(gathered_);
    parameters_.descend(options_.lr);
    const int64_t shared = ++steps_ - options_.initial_delay;
    if (shared <= 0) return;
    if (shared % options_.push_interval == 0) push();
    const int64_t until_pull = options_.pull_interval - 1 - (shared - 1) % options_.pull_interval;
    if (until_pull == options_.prefetch_lead % options_.pull_interval && options_.prefetch_lead < options_.pull_interval) centre_.prefetch();
    if (until_pull != 0) return;
    if (centre_.has_prefetched()) parameters_.set(centre_.pull());
    if (options_.prefetch_lead == options_.pull_interval) centre_.prefetch();  // for the next time
  }

  void finish() {
    if (centre_.trains()) push();
    parameters_.set(centre_.finish());
  }

  const Centre& centre() const noexcept { return centre_; }

 private:
  void push() {
    if (options_.rule.empty()) gathered_.mul_(-options_.lr);
    centre_.push(std::exchange(gathered_, parameters_.zeros()));
  }

  DownpourOptions options_;
  FlatParameters parameters_;
  Centre centre_;
  at::Tensor gathered_;  // gradients since the last push
  int64_t steps_ = 0;
};

Downpour::Downpour(const Communicator& comm, std::vector<at::Tensor> parameters, const DownpourOptions& options)
    : impl_(std::make_unique<Impl>(comm, std::move(parameters), options)) {}
Downpour::~Downpour() = default;
void Downpour::step() { impl_->step(); }
void Downpour::finish() { impl_->finish(); }
const ShardedTensor& Downpour::centre() const { return impl_->centre().tensor(); }
const Communicator& Downpour::group() const noexcept { return impl_->centre().group(); }
const Traffic& Downpour::traffic() const noexcept { return impl_->centre().traffic(); }

}  // namespace tw::parameter_server
