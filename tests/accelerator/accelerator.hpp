// SPDX-License-Identifier: Apache-2.0
// A simulated accelerator: LibTorch's device PrivateUse1, with streams, events, pinned memory and several devices, in a process without a GPU.
//
// - Work in a stream runs as late as possible: when the host, or a stream that is waited for, waits for it. So a missing wait gives a wrong number
// every time, not a race that shows now and then.
// - The host cannot read device memory: dereferencing a data_ptr() is a segmentation fault, as it may be on a GPU.
// - Memory that is freed while a stream still needs it (no record_stream()) reads as NaN there.
// - Waits of the host are counted.
#pragma once
#include <ATen/core/TensorBody.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace tw::testing::accelerator {

/// Makes `devices` of them, named "simulated", unless there are some already. Call before the first backward pass: autograd counts devices once.
void install(int devices = 2);

c10::Device device(int index = 0);

/// Moves a parameter or a buffer, as Module::to() does for other devices: LibTorch's set_data() mistakes this device type for another layout.
void move(const at::Tensor& tensor, c10::Device device);

/// What MPI sees behind a pointer to a device, in programs that link tw_aware_mpi.
enum class MpiSight {
  nothing,  ///< it traps, as in any other program
  memory,   ///< an MPI that supports the devices
  shifted,  ///< one that only claims to: it is off by one byte
};
void let_mpi_see(MpiSight sight);

/// Number of times the host has waited for a device: for an event, a stream, a device, a blocking copy, or a tensor's value.
int64_t host_waits();

}  // namespace tw::testing::accelerator
