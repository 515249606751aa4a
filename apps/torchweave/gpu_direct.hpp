// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <tw/mpi/environment.hpp>

namespace tw::tool {

/// Passes pointers to device memory to MPI: sends messages between ranks 0 and 1, in both directions, from device to host, from host to device, and
/// from device to device. This may crash if MPI does not support such memory, so run it in watched(). Collective.
/// @param about_to called with a description of the next action
/// @return the failure, on every rank; empty if there is none
std::string try_gpu_direct(const Environment& mpi, const std::function<void(std::string_view)>& about_to);

/// The last line of the test: "PASSED: GPU aware MPI is available", or "FAILED: GPU aware MPI is NOT available" and why.
std::string gpu_direct_verdict(const std::string& failure);

/// `torchweave doctor --gpu-direct`: runs the test in a child process on every rank, before this process has started MPI, and prints the verdict as
/// the last line of rank 0.
/// @param begin starts MPI in the child process, and passes it to its argument
/// @return the exit code: 0 if the test has passed
int run_gpu_direct(const std::function<void(const std::function<void(const Environment&)>&)>& begin);

}  // namespace tw::tool
