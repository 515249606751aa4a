// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <cstddef>

namespace tw {

/// `count` elements of a device's memory; the tensor does not keep the memory alive.
inline at::Tensor elements_at(const std::byte* memory, int64_t count, c10::ScalarType dtype, c10::Device device) {
  return at::for_blob(const_cast<std::byte*>(memory), {count})
      .options(at::TensorOptions().dtype(dtype).device(device))
      .target_device(device)
      .make_tensor();
}

/// The stream's native handle, such as a cudaStream_t.
inline void* native_handle(const c10::Stream& stream) { return c10::impl::VirtualGuardImpl(stream.device_type()).getStreamNativeHandle(stream); }

}  // namespace tw
