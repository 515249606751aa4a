// SPDX-License-Identifier: Apache-2.0
#include "operation_stream.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace tw {
namespace {

c10::impl::VirtualGuardImpl guard_of(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()); }

}  // namespace

OperationStream::OperationStream(c10::Device device, std::function<void()> give_up)
    : device_(device),
      stream_(guard_of(device).getStreamFromGlobalPool(device, /*isHighPriority=*/true)),
      arrived_(device.type()),
      returned_(device.type()),
      give_up_(std::move(give_up)) {
  arrived_.record(guard_of(device).getStream(device));
  arrived_.block(stream_);
}

at::Tensor OperationStream::memory(at::IntArrayRef sizes, at::ScalarType dtype, bool on_device) {
  const at::TensorOptions options = at::TensorOptions().dtype(dtype);
  if (!on_device) return at::empty(sizes, options.pinned_memory(true));
  const c10::StreamGuard in(stream_);
  const at::Tensor memory = at::empty(sizes, options.device(device_));
  arrived_.record(stream_);  // after the work of its previous owner
  return memory;
}

void OperationStream::copy_in(const at::Tensor& tensor, const at::Tensor& packed) {
  const at::NoGradGuard no_grad;
  const c10::StreamGuard in(stream_);
  packed.copy_(tensor.resolve_conj().resolve_neg().contiguous(), /*non_blocking=*/true);
  use(tensor);
  arrived_.record(stream_);
}

at::Tensor OperationStream::flat(const at::Tensor& tensor) const {
  const at::NoGradGuard no_grad;
  const c10::StreamGuard in(stream_);
  return tensor.resolve_conj().resolve_neg().contiguous().view(-1);
}

void OperationStream::begin_parts() {
  back_ = guard_of(device_).getStreamFromGlobalPool(device_, /*isHighPriority=*/true);
  arrived_.block(*back_);
}

std::function<bool()> OperationStream::copy_in_part(const at::Tensor& tensor, const at::Tensor& packed) {
  copy_in(tensor, packed);
  const auto arrived = std::make_shared<c10::Event>(device_.type());
  arrived->record(stream_);
  return [arrived] { return arrived->query(); };
}

void OperationStream::copy_out(const at::Tensor& packed, const at::Tensor& tensor) const {
  const at::NoGradGuard no_grad;
  const c10::StreamGuard in(stream_);
  if (tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) {
    tensor.copy_(packed, /*non_blocking=*/true);
  } else {
    tensor.copy_(packed.to(device_, /*non_blocking=*/true));
  }
  use(tensor);
}

void OperationStream::copy_out_part(const at::Tensor& packed, const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const c10::StreamGuard in(*back_);
  tensor.copy_(packed, /*non_blocking=*/true);
  record_stream(tensor, *back_);
}

void OperationStream::end() {
  if (back_) {
    c10::Event given_back(device_.type());
    given_back.record(*back_);
    given_back.block(stream_);
  }
  returned_.record(stream_);
}

void OperationStream::join_stream() { returned_.block(guard_of(device_).getStream(device_)); }

void OperationStream::wait_on_host() { returned_.synchronize(); }

}  // namespace tw
