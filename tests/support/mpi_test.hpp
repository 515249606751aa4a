// SPDX-License-Identifier: Apache-2.0
// Shared helpers of MPI tests. Every rank runs every test. EXPECT_* may fail on a single rank, and all ranks still finish the test together. Use
// ASSERT_* only where all ranks fail alike; otherwise the others wait for this one.
#pragma once
#include <ATen/core/TensorBody.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <source_location>
#include <string>
#include <tw/mpi.hpp>
#include <utility>

namespace tw::testing {

/// All ranks of this run.
const Communicator& world();

/// The device for tensors of tests that also run on devices: the CPU, or the one named by --device.
c10::Device device();
inline at::TensorOptions on_device(at::ScalarType dtype = at::kFloat) { return at::TensorOptions().dtype(dtype).device(device()); }

/// Whether it is a real device, which neither traps host accesses nor counts host waits, as the simulated accelerator does. A test that checks
/// nothing else is skipped there: `if (on_a_real_device()) GTEST_SKIP() << why`.
bool on_a_real_device();

/// Calls `f` and expects the host to wait `times` times for the device; on a real device it only calls `f`.
void expect_host_waits(int64_t times, const std::function<void()>& f, std::source_location where = std::source_location::current());

/// Reports, with the outcome of the current test, a check that was left out.
void leave_out(const std::string& what);

/// Moves a tensor, which it returns, or a module's parameters and buffers, to device().
at::Tensor place(const at::Tensor& tensor);
template <class Module>
void place_module(const Module& module) {
  for (const at::Tensor& parameter : module->parameters()) place(parameter);
  for (const at::Tensor& buffer : module->buffers()) place(buffer);
}

using FilesOnRanks = std::set<std::pair<std::string, int>>;
constexpr int without_mpi = 0;  ///< the number of ranks of a run that does not start MPI
/// The numbers of ranks that a file's tests run on, with tensors on the CPU or on the simulated accelerator, as given to tw_mpi_test(); `without_mpi`
/// for files of tw_torch_test(). Generated.
const FilesOnRanks& files_on_ranks(bool on_device);

struct RankCount {
  int least = 1;
  int most = 1 << 30;
};
/// Records the number of ranks that a test needs, among those its file runs on. @return true
bool note_ranks(const std::string& test, RankCount ranks);

}  // namespace tw::testing

/// TEST() for behaviour that only some numbers of ranks show: TW_TEST_ON(Subset, IsInterrupted, {.least = 2}) { ... }
#define TW_TEST_ON(suite, name, ...)                                                                                                         \
  [[maybe_unused]] static const bool suite##_##name##_ranks = tw::testing::note_ranks(#suite "." #name, tw::testing::RankCount __VA_ARGS__); \
  TEST(suite, name)
