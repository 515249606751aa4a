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

namespace {

ElasticOptions validated(const ElasticOptions& options) {
  options.validate();
  return options;
}

}  // namespace

class ElasticAveraging::Impl {
 public:
  Impl(const Communicator& comm, std::vector<at::Tensor> parameters, const ElasticOptions& options)
      : options_(validated(options)),
        parameters_(std::move(parameters)),
        centre_(comm, agreed_crew(comm, options.roles), parameters_.values(), {}, options.share_memory),
        alpha_(options.beta / centre_.crew().workers()) {
    parameters_.set(centre_.pull());
    comm.barrier();  // all have begun at the same place before anyone pushes
  }

  bool step() {
    if (++steps_ % options_.period != 0) return false;
    const at::NoGradGuard no_grad;
    const at::Tensor x = parameters_.values();
    const at::Tensor pull = at::sub(centre_.pull(), x).mul_(alpha_);  // alpha d
    parameters_.set(at::add(x, pull));
    centre_.push(pull.neg());
    return true;
  }

  void finish() { parameters_.set(centre_.finish()); }

  double alpha() const noexcept { return alpha_; }
  const Centre& centre() const noexcept { return centre_; }

 private:
  ElasticOptions options_;
  FlatParameters parameters_;
  Centre centre_;
  double alpha_;
  int64_t steps_ = 0;
};

ElasticAveraging::ElasticAveraging(const Communicator& comm, std::vector<at::Tensor> parameters, const ElasticOptions& options)
    : impl_(std::make_unique<Impl>(comm, std::move(parameters), options)) {}
ElasticAveraging::~ElasticAveraging() = default;
bool ElasticAveraging::step() { return impl_->step(); }
void ElasticAveraging::finish() { impl_->finish(); }
double ElasticAveraging::alpha() const noexcept { return impl_->alpha(); }
const ShardedTensor& ElasticAveraging::centre() const { return impl_->centre().tensor(); }
const Communicator& ElasticAveraging::group() const noexcept { return impl_->centre().group(); }
const Traffic& ElasticAveraging::traffic() const noexcept { return impl_->centre().traffic(); }

}  // namespace tw::parameter_server
