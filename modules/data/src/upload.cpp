// SPDX-License-Identifier: Apache-2.0
#include "upload.hpp"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace tw {

Upload::Upload(c10::Device device) : device_(device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  if (!device.has_index()) device_ = guard.getDevice();
  stream_ = guard.getStreamFromGlobalPool(device_);
}

Upload::Sent Upload::send(Batch batch) const {
  if (!stream_) return {std::move(batch), nullptr};
  const c10::StreamGuard in(*stream_);
  const auto there = [&](const at::Tensor& here) { return here.pin_memory().to(device_, /*non_blocking=*/true); };
  Sent sent{{there(batch.inputs), there(batch.targets)}, std::make_shared<c10::Event>(device_.type())};
  sent.arrived->record(*stream_);
  return sent;
}

Batch Upload::receive(Sent sent) const {
  if (!sent.arrived) return std::move(sent.batch);
  const c10::Stream current = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  sent.arrived->block(current);
  sent.batch.inputs.record_stream(current);
  sent.batch.targets.record_stream(current);
  return std::move(sent.batch);
}

}  // namespace tw
