// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>

#include <c10/core/impl/VirtualGuardImpl.h>
#include <string_view>
#include <tw/base/contract.hpp>

namespace tw {

inline bool is_on_accelerator(const at::Tensor& tensor) { return at::accelerator::isAccelerator(tensor.device().type()); }

/// This thread's current device of a kind.
inline c10::Device current_device(c10::DeviceType kind) {
  return kind == c10::kCPU ? c10::Device(c10::kCPU) : c10::impl::VirtualGuardImpl(kind).getDevice();
}

/// For code that reads or writes a tensor's memory directly. @param user name of that code, for the message. @throws ContractError unless `tensor` is
/// dense and on the CPU.
inline void expect_dense_on_cpu(const at::Tensor& tensor, std::string_view user) {
  TW_EXPECTS(tensor.is_cpu() && tensor.layout() == at::kStrided, user, " needs a dense tensor on the CPU, got ",
             tensor.layout() == at::kStrided ? "one on " : "a sparse one on ", tensor.device().str());
}

/// `tensor`, or a copy if it lies on an accelerator; the host waits for the copy. @throws ContractError unless the result is dense and on the CPU.
inline at::Tensor on_cpu(const at::Tensor& tensor, std::string_view user) {
  const at::Tensor here = is_on_accelerator(tensor) ? tensor.cpu() : tensor;
  expect_dense_on_cpu(here, user);
  return here;
}

}  // namespace tw
