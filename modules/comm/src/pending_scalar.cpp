// SPDX-License-Identifier: Apache-2.0
#include <tw/comm/pending_scalar.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <tw/mpi/engine.hpp>
#include <tw/tensor/on_cpu.hpp>

namespace tw {

PendingScalar::PendingScalar(const at::Tensor& number) {
  const at::NoGradGuard no_grad;
  if (!is_on_accelerator(number)) {
    here_ = number.to(at::kDouble);
    return;
  }
  const c10::Device device = number.device();
  here_ = at::empty({}, at::TensorOptions().dtype(at::kDouble).pinned_memory(true));
  here_.copy_(number.to(at::kDouble), /*non_blocking=*/true);
  arrived_.emplace(device.type()).record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

double PendingScalar::value(const Communicator& comm) const {
  if (arrived_ && !arrived_->query()) {
    mpi::wait_until(comm, [this] { return arrived_->query(); });
    arrived_->synchronize();
  }
  return *here_.const_data_ptr<double>();
}

}  // namespace tw
