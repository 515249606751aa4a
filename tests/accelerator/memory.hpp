// SPDX-License-Identifier: Apache-2.0
// The memory of the simulated devices: one unnamed file, mapped twice. Tensors point into a mapping that traps; streams use the other one.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

namespace tw::testing::accelerator {

/// Allocators for the current device, and for pinned host memory.
c10::Allocator* device_allocator();
c10::Allocator* pinned_allocator();
bool is_pinned(const void* memory);

/// A CPU tensor on the same memory, for the work of a stream. Does not keep the memory alive. Returns CPU tensors unchanged.
at::Tensor seen_by_stream(const at::Tensor& tensor);

/// Registers memory mapped elsewhere: `trap` for tensors, `open` for streams.
void add_memory(void* trap, size_t bytes, void* open);
/// The accessible address for a device pointer, for a stream's work.
void* opened(void* memory);
/// The address MPI sees for a pointer; see accelerator.hpp.
void* seen_by_mpi(void* memory);

/// Prevents reuse of `storage`'s memory until the current work of `stream` has finished.
void used_by(const c10::Storage& storage, c10::Stream stream);

}  // namespace tw::testing::accelerator
