// SPDX-License-Identifier: Apache-2.0
// The memory of the simulated devices: one file without a name, mapped twice. Tensors point into the mapping that traps; streams work in the other.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

namespace tw::testing::accelerator {

/// Of tensors on the current device; and of pinned memory, which is the host's.
c10::Allocator* device_allocator();
c10::Allocator* pinned_allocator();
bool is_pinned(const void* memory);

/// A tensor on the CPU that is the same memory, without keeping it alive: for what a stream does. A tensor of the host is returned as it is.
at::Tensor seen_by_stream(const at::Tensor& tensor);

/// Makes memory known that was mapped elsewhere: `trap` for tensors, `open` for streams.
void add_memory(void* trap, size_t bytes, void* open);
/// The memory that a pointer of a tensor on a device means, for a stream's work.
void* opened(void* memory);
/// Where MPI finds what a pointer means; see accelerator.hpp.
void* seen_by_mpi(void* memory);

/// Keeps the memory of `storage` from being used anew until the current work of `stream` is done.
void used_by(const c10::Storage& storage, c10::Stream stream);

}  // namespace tw::testing::accelerator
