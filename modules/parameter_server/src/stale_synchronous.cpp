// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tensor.h>

#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/parameter_server/stale_synchronous.hpp>

#include "centre.hpp"
#include "flat_parameters.hpp"

namespace tw::parameter_server {

void StaleSynchronousOptions::validate() const {
  TW_EXPECTS(staleness >= 0, "staleness must be at least 0 steps, got ", staleness);
  TW_EXPECTS(warn_after.count() >= 0, "warn_after must be at least 0 s, got ", warn_after.count());
}

namespace {

StaleSynchronousOptions validated(const StaleSynchronousOptions& options) {
  options.validate();
  return options;
}

}  // namespace

class StaleSynchronous::Impl {
 public:
  Impl(const Communicator& comm, std::vector<at::Tensor> parameters, const StaleSynchronousOptions& options)
      : options_(validated(options)),
        parameters_(std::move(parameters)),
        centre_(comm, agreed_crew(comm, options.roles), parameters_.values(), {}, options.share_memory),
        before_(centre_.pull()) {
    parameters_.set(before_);
    comm.barrier();  // all have begun at the same place before anyone pushes
  }

  bool step() {
    const at::NoGradGuard no_grad;
    const at::Tensor now = parameters_.values();
    centre_.push(at::sub(now, before_));
    centre_.settle();  // others read in this worker's clock that the update is there
    before_ = now;
    const int64_t needed = ++steps_ - options_.staleness;
    if (!agreed(centre_.slowest_seen() < needed)) return false;
    centre_.wait_for_all(needed, options_.warn_after, true);
    before_ = centre_.pull();
    parameters_.set(before_);
    return true;
  }

  void finish() { parameters_.set(centre_.finish()); }

  const Centre& centre() const noexcept { return centre_; }

 private:
  /// What the worker's first rank says, which alone knows of clocks.
  bool agreed(bool of_first_rank) const {
    if (centre_.group().size() == 1) return of_first_rank;
    const at::Tensor answer = at::tensor({static_cast<int64_t>(of_first_rank)}, at::kLong);
    broadcast(centre_.group(), answer, Rank(0));
    return answer.item<int64_t>() != 0;
  }

  StaleSynchronousOptions options_;
  FlatParameters parameters_;
  Centre centre_;
  at::Tensor before_;  // the parameters when this worker's step began
  int64_t steps_ = 0;
};

StaleSynchronous::StaleSynchronous(const Communicator& comm, std::vector<at::Tensor> parameters, const StaleSynchronousOptions& options)
    : impl_(std::make_unique<Impl>(comm, std::move(parameters), options)) {}
StaleSynchronous::~StaleSynchronous() = default;
bool StaleSynchronous::step() { return impl_->step(); }
void StaleSynchronous::finish() { impl_->finish(); }
const ShardedTensor& StaleSynchronous::centre() const { return impl_->centre().tensor(); }
const Communicator& StaleSynchronous::group() const noexcept { return impl_->centre().group(); }
const Traffic& StaleSynchronous::traffic() const noexcept { return impl_->centre().traffic(); }

}  // namespace tw::parameter_server
