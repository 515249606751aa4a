// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/sub.h>

#include <tw/base/contract.hpp>
#include <tw/parameter_server/elastic_averaging.hpp>

#include "flat_parameters.hpp"

namespace tw::parameter_server {

void ElasticOptions::validate() const {
  TW_EXPECTS(period >= 1, "period must be at least 1 step, got ", period);
  TW_EXPECTS(beta > 0 && beta <= 1, "beta must be above 0 and at most 1, got ", beta);
}

namespace {

ElasticOptions validated(const ElasticOptions& options) {
  options.validate();
  return options;
}

}  // namespace

class ElasticAveraging::Impl {
 public:
  Impl(const Communicator& comm, std::vector<at::Tensor> parameters, const ElasticOptions& options, int workers)
      : options_(validated(options)),
        alpha_(options.beta / (workers > 0 ? workers : comm.size())),
        parameters_(std::move(parameters)),
        centre_(comm, parameters_.values(), {.servers = options.servers, .share_memory = options.share_memory}) {
    parameters_.set(centre_.prefetch().take());
    comm.barrier();  // all have begun at the same place before anyone pushes
  }

  bool step() {
    if (++steps_ % options_.period != 0) return false;
    const at::NoGradGuard no_grad;
    const at::Tensor x = parameters_.values();
    const at::Tensor pull = at::sub(centre_.prefetch().take(), x).mul_(alpha_);  // alpha d
    pushed_.wait();
    parameters_.set(at::add(x, pull));
    pushed_ = centre_.push(pull.neg());
    return true;
  }

  void finish() {
    pushed_.wait();
    centre_.finish();
    parameters_.set(centre_.prefetch().take());
    centre_.finish();
  }

  const ShardedTensor& centre() const noexcept { return centre_; }
  double alpha() const noexcept { return alpha_; }

 private:
  ElasticOptions options_;
  double alpha_;
  FlatParameters parameters_;
  ShardedTensor centre_;
  ShardedTensor::Handle pushed_;
  int64_t steps_ = 0;
};

ElasticAveraging::ElasticAveraging(const Communicator& comm, std::vector<at::Tensor> parameters, const ElasticOptions& options, int workers)
    : impl_(std::make_unique<Impl>(comm, std::move(parameters), options, workers)) {}
ElasticAveraging::~ElasticAveraging() = default;
bool ElasticAveraging::step() { return impl_->step(); }
void ElasticAveraging::finish() { impl_->finish(); }
const ShardedTensor& ElasticAveraging::centre() const noexcept { return impl_->centre(); }
double ElasticAveraging::alpha() const noexcept { return impl_->alpha(); }

}  // namespace tw::parameter_server
