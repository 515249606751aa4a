// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <optional>
#include <tw/tensor/record_stream.hpp>

namespace tw {

/// The stream in which gradients on a device are packed and reduced, concurrently with compute streams. On the CPU, or on a single rank, there is
/// none and all calls are no-ops.
class SideStream {
 public:
  explicit SideStream(c10::Device device) : device_(device) {
    if (!device.is_cpu()) stream_ = guard().getStreamFromGlobalPool(device, /*isHighPriority=*/true);
  }

  /// While alive, this thread's work goes to the side stream, after the work already in the current stream.
  class Scope {
   public:
    explicit Scope(const SideStream& side) {
      if (!side.stream_) return;
      const c10::Stream current = side.guard().getStream(side.device_);
      if (current == *side.stream_) return;
      side.order(current, *side.stream_);
      entered_.emplace(*side.stream_);
    }

   private:
    std::optional<c10::StreamGuard> entered_;
  };

  /// Keeps the memory of `tensor` until the side stream has finished its current work.
  void uses(const at::Tensor& tensor) const {
    if (stream_) record_stream(tensor, *stream_);
  }
  /// Makes the current stream wait for `stream`. Inside a Scope, the current stream is the side stream.
  void follow(const c10::Stream& stream) const {
    const c10::Stream current = c10::impl::VirtualGuardImpl(stream.device_type()).getStream(stream.device());
    if (current != stream) order(stream, current);
  }
  /// Makes the current stream wait for the side stream.
  void join() const {
    if (stream_) order(*stream_, guard().getStream(device_));
  }

 private:
  c10::impl::VirtualGuardImpl guard() const { return c10::impl::VirtualGuardImpl(device_.type()); }
  void order(const c10::Stream& first, const c10::Stream& then) const {
    c10::Event done(first.device_type());
    done.record(first);
    done.block(then);
  }

  c10::Device device_;
  std::optional<c10::Stream> stream_;
};

}  // namespace tw
