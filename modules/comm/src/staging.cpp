// SPDX-License-Identifier: Apache-2.0
#include "staging.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace tw {
namespace {

c10::impl::VirtualGuardImpl guard_of(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()); }

}  // namespace

Staging::Staging(c10::Device device)
    : device_(device),
      stream_(guard_of(device).getStreamFromGlobalPool(device, /*isHighPriority=*/true)),
      arrived_(device.type()),
      returned_(device.type()) {
  c10::Event in_flight(device.type());
  in_flight.record(guard_of(device).getStream(device));
  in_flight.block(stream_);
}

void Staging::bring(const at::Tensor& tensor, const at::Tensor& host) {
  const at::NoGradGuard no_grad;
  const c10::StreamGuard in(stream_);
  host.copy_(tensor.resolve_conj().resolve_neg().contiguous(), /*non_blocking=*/true);
  tensor.record_stream(stream_);
  arrived_.record(stream_);
}

void Staging::give_back(const at::Tensor& host, const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const c10::StreamGuard in(stream_);
  if (tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) {
    tensor.copy_(host, /*non_blocking=*/true);
  } else {
    tensor.copy_(host.to(device_, /*non_blocking=*/true));
  }
  tensor.record_stream(stream_);
  returned_.record(stream_);
}

void Staging::join_stream() { returned_.block(guard_of(device_).getStream(device_)); }

void Staging::wait_on_host() { returned_.synchronize(); }

}  // namespace tw
