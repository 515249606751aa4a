// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include <ATen/DeviceAccelerator.h>

#include <iostream>
#include <tw/base/concat.hpp>
#include <tw/base/log.hpp>

#include "launcher_match.hpp"

namespace tw::tool {

Environment& Session::mpi() {
  if (mpi_) return *mpi_;
  // With a device, autograd's own threads reduce gradients.
  const bool has_devices = at::accelerator::deviceCount() > 0;
  mpi_.emplace(EnvironmentOptions{.thread_level = has_devices ? ThreadLevel::serialized : ThreadLevel::funneled});
  ending_.emplace(mpi_->world());
  const std::string mismatch = launcher_mismatch(variable, mpi_->world().size());
  if (!mismatch.empty() && is_first_process(variable)) log_warning(mismatch);
  return *mpi_;
}

bool Session::is_first() { return !(mpi_ || started_with_others(variable)) || mpi().world().rank() == 0; }

int Session::finish(const End& end) const {
  if (ending_) {
    ending_->end_together(end);
    return 0;
  }
  if (!end.message.empty()) std::cerr << concat("torchweave: ", end.message, '\n') << std::flush;
  return end.exit_code;
}

}  // namespace tw::tool
