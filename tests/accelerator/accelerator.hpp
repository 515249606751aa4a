// SPDX-License-Identifier: Apache-2.0
// An accelerator that is none: LibTorch's device PrivateUse1, with streams, events, pinned memory and several devices, in a process without a GPU.
//
// - What is put into a stream is done as late as can be: when somebody waits for it, on the host or in another stream that is waited for. So a wait
// that
//   is missing is a wrong number, every time, and not a race that shows now and then.
// - The host cannot read a device's memory: a data_ptr() that it follows is a segmentation fault, as it may be on a GPU.
// - Memory that is freed while a stream still needs it (no record_stream()) reads as NaN there.
// - Waits of the host are counted.
#pragma once
#include <ATen/core/TensorBody.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace tw::testing::accelerator {

/// Makes `devices` of them, named "simulated", where there are none yet. Before the first backward pass: autograd counts devices once.
void install(int devices = 2);

c10::Device device(int index = 0);

/// Moves a parameter or a buffer, as Module::to() does elsewhere: LibTorch's set_data() takes this kind of device for one of another layout.
void move(const at::Tensor& tensor, c10::Device device);

/// What MPI finds where it is given a pointer to a device, in programs that link tw_aware_mpi.
enum class MpiSight {
  nothing,  ///< it traps, as in any other program
  memory,   ///< an MPI that knows the devices
  shifted,  ///< one that believes so: it is a byte off
};
void let_mpi_see(MpiSight sight);

/// How often the host has waited for a device so far: for an event, a stream, a device, a copy that blocks, the value of a tensor.
int64_t host_waits();

}  // namespace tw::testing::accelerator
