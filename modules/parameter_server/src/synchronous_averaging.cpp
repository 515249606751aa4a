// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/parameter_server/synchronous_averaging.hpp>

#include "centre.hpp"
#include "flat_parameters.hpp"

namespace tw::parameter_server {

void SynchronousAveragingOptions::validate() const {
  TW_EXPECTS(warn_after.count() >= 0, "warn_after must be at least 0 s, got ", warn_after.count());
}

namespace {

SynchronousAveragingOptions validated(const SynchronousAveragingOptions& options) {
  options.validate();
  return options;
}

}  // namespace

// The servers hold the mean of the last p pushes, one of each worker. Nobody pushes again before having pulled it, so it stands until all have.
class SynchronousAveraging::Impl {
 public:
  Impl(const Communicator& comm, std::vector<at::Tensor> parameters, const SynchronousAveragingOptions& options)
      : options_(validated(options)),
        parameters_(std::move(parameters)),
        crew_(agreed_crew(comm, options.roles)),
        centre_(comm, crew_, parameters_.values(), {rules::mean(crew_.workers())}, options.share_memory) {
    parameters_.set(centre_.pull());
    comm.barrier();  // all have begun at the same place before anyone pushes
  }

  void step() {
    const at::Tensor gradients = parameters_.zeros();
    parameters_.add_gradients_to(gradients);
    centre_.push(gradients);
    centre_.wait_for_all(++steps_, options_.warn_after, false);
    parameters_.set_gradients(centre_.pull());
  }

  void finish() { centre_.finish(); }

  const Centre& centre() const noexcept { return centre_; }

 private:
  SynchronousAveragingOptions options_;
  FlatParameters parameters_;
  Crew crew_;
  Centre centre_;
  int64_t steps_ = 0;
};

SynchronousAveraging::SynchronousAveraging(const Communicator& comm, std::vector<at::Tensor> parameters, const SynchronousAveragingOptions& options)
    : impl_(std::make_unique<Impl>(comm, std::move(parameters), options)) {}
SynchronousAveraging::~SynchronousAveraging() = default;
void SynchronousAveraging::step() { impl_->step(); }
void SynchronousAveraging::finish() { impl_->finish(); }
const Communicator& SynchronousAveraging::group() const noexcept { return impl_->centre().group(); }
const Traffic& SynchronousAveraging::traffic() const noexcept { return impl_->centre().traffic(); }

}  // namespace tw::parameter_server
