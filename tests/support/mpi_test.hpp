// SPDX-License-Identifier: Apache-2.0
// What MPI tests share. Every rank runs every test; EXPECT_* may fail on one rank alone, and all ranks go on to the end of the
// test together. Use ASSERT_* only where all ranks fail alike, or the others wait for this one.
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

/// Where tensors of a test lie that is run for devices too: on the CPU, or on what --device names.
c10::Device device();
inline at::TensorOptions on_device(at::ScalarType dtype = at::kFloat) { return at::TensorOptions().dtype(dtype).device(device()); }

/// Whether that is a device which neither traps the host nor counts what it waits for, as the simulated accelerator does. A test that sees no more
/// than that is skipped there: `if (on_a_real_device()) GTEST_SKIP() << why`.
bool on_a_real_device();

/// Calls `f`, in which the host waits `times` times for the device; where nobody counts, that is left out.
void expect_host_waits(int64_t times, const std::function<void()>& f, std::source_location where = std::source_location::current());

/// Notes beside the outcome of the current test what it did not look at.
void leave_out(const std::string& what);

/// Moves a tensor, which it returns, or a module's parameters and buffers, there.
at::Tensor place(const at::Tensor& tensor);
template <class Module>
void place_module(const Module& module) {
  for (const at::Tensor& parameter : module->parameters()) place(parameter);
  for (const at::Tensor& buffer : module->buffers()) place(buffer);
}

using FilesOnRanks = std::set<std::pair<std::string, int>>;
/// On how many ranks the tests of a file run, with tensors on the CPU or on the simulated accelerator, as tw_mpi_test() said; generated.
const FilesOnRanks& files_on_ranks(bool on_device);

struct RankCount {
  int least = 1;
  int most = 1 << 30;
};
/// Notes how many ranks a test needs, of those that its file runs on. @return true
bool note_ranks(const std::string& test, RankCount ranks);

}  // namespace tw::testing

/// TEST() for what can be seen on some numbers of ranks alone: TW_TEST_ON(Subset, IsInterrupted, {.least = 2}) { ... }
#define TW_TEST_ON(suite, name, ...)                                                                                                         \
  [[maybe_unused]] static const bool suite##_##name##_ranks = tw::testing::note_ranks(#suite "." #name, tw::testing::RankCount __VA_ARGS__); \
  TEST(suite, name)
