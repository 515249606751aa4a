// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/parameter_server/synchronous_averaging.hpp>

#include "centre.hpp"
#include "flat_parameters.hpp"

namespace tw::parameter_server {

void SynchronousAveragingOptions::validate() const {
  TW_EXPECTS(warn_after.count() >= 0, "warn_after must be at least 0 s, got ", warn_after.count());
}

// The servers hold the mean of the last p pushes, one of each worker. Nobody pushes again before having pulled it, so it stands until all have.
SynchronousAveraging::SynchronousAveraging(const Communicator& comm, std::vector<at::Tensor> parameters, const SynchronousAveragingOptions& options)
    : Worker(
          comm, std::move(parameters), options.roles,
          [&](const Crew& crew) {
            options.validate();
            return std::vector<Rule>{rules::mean(crew.workers())};
          }, options.share_memory),
      options_(options) {}

bool SynchronousAveraging::step() {
  const at::Tensor gradients = parameters().zeros();
  parameters().add_gradients_to(gradients);
  servers().push(gradients);
  servers().wait_for_all(++steps_, options_.warn_after, false);
  parameters().set_gradients(servers().pull());
  return true;
}

void SynchronousAveraging::finish() {
  servers().finish();
  steps_ = 0;
}

}  // namespace tw::parameter_server
