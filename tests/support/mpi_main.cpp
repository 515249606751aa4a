// SPDX-License-Identifier: Apache-2.0
// The main() of every MPI test: all ranks run the same tests, from the files that are meant for this number of ranks. Rank 0 prints the failures of
// all ranks.
//   --without-mpi       the tests of one process that are in this program, too: see tw_torch_test()
//   --file=NAME         only the tests of that file, on any number of ranks
//   --progress-thread   a thread drives the engine
//   --largest-message=N  EnvironmentOptions::largest_message; "random": drawn and printed
//   --direct            MPI accepts the memory of simulated devices, in programs that link tw_aware_mpi
//   --nccl, --ipc       offers NCCL, or shared device memory, in programs that link tw_nccl_double or tw_ipc_double, with three devices:
//                       three ranks have one each, and of four ranks two share one
//   --device=simulated  tests that ask for a device put their tensors on the simulated accelerator, rank r's on device r mod 2
//   --device=KIND       the same on a real accelerator, such as cuda: the tests of all files that run on the simulated one, on every number of
//                       ranks they are meant for. Ranks may share a device. Exit code 77, and a message, if there is none
#include "mpi_test.hpp"

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <unistd.h>

#include <accelerator.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <tw/base/error.hpp>
#include <tw/comm/device.hpp>
#include <tw/comm/objects.hpp>

namespace tw::testing::accelerator {
// Programs without the doubles are never run with the flags that need them.
[[gnu::weak]] void offer_nccl();
[[gnu::weak]] void offer_ipc();
}  // namespace tw::testing::accelerator

namespace {

namespace accelerator = tw::testing::accelerator;
const tw::Communicator* world_of_tests = nullptr;
c10::Device device_of_tests(c10::kCPU);
bool is_direct_between_devices = false;  // --nccl, --ipc
std::set<std::string> left_out;          // by the current test

std::map<std::string, tw::testing::RankCount>& ranks_of_tests() {
  static std::map<std::string, tw::testing::RankCount> ranks;
  return ranks;
}

/// "random" derives it from the parent process id, which the ranks of one host share.
int64_t largest_message_of(const std::string& argument) {
  return argument == "random" ? 500 + getppid() * int64_t{7919} % 3000 : std::stoll(argument);
}

/// Gathers the failures of all ranks at the end of each test.
class RankReporter : public testing::EmptyTestEventListener {
 public:
  int failures() const { return failures_; }

 private:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.skipped()) left_out.insert(result.message());
    if (!result.failed()) return;
    mine_ += tw::concat(result.file_name() ? result.file_name() : "?", ":", result.line_number(), ": ", result.message(), "\n");
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    const auto all = tw::allgather_strings(tw::testing::world(), mine_);
    mine_.clear();
    bool failed = false;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].empty()) continue;
      failed = true;
      if (tw::testing::world().rank() == 0) std::cout << "rank " << rank << ": " << all[rank];
    }
    failures_ += failed ? 1 : 0;
    if (tw::testing::world().rank() == 0) {
      std::cout << (failed                     ? "[  FAILED  ] "
                    : test.result()->Skipped() ? "[  SKIPPED ] "
                                               : "[       OK ] ")
                << test.test_suite_name() << "." << test.name();
      for (const std::string& what : left_out) std::cout << "; " << what;
      std::cout << " (" << test.result()->elapsed_time() << " ms)" << std::endl;
    }
    left_out.clear();
  }

  void OnTestProgramEnd(const testing::UnitTest& all) override {
    std::array<char, 256> name{};
    ::gethostname(name.data(), name.size() - 1);
    const auto names = tw::allgather_strings(tw::testing::world(), name.data());
    if (tw::testing::world().rank() != 0) return;
    std::cout << all.test_to_run_count() << " tests on " << names.size() << " ranks of " << std::set(names.begin(), names.end()).size() << " hosts"
              << std::endl;
  }

  std::string mine_;
  int failures_ = 0;
};

/// Whether the tests of a file run on this number of ranks.
bool is_meant(const std::string& file, int ranks) {
  const auto& on_host = tw::testing::files_on_ranks(false);
  const auto& on_device = tw::testing::files_on_ranks(true);
  if (device_of_tests.is_cpu()) return on_host.contains({file, ranks});
  if (!tw::testing::on_a_real_device()) return on_device.contains({file, ranks});
  return std::any_of(on_device.begin(), on_device.end(), [&](const auto& run) { return run.first == file; }) &&
         (on_device.contains({file, ranks}) || on_host.contains({file, ranks}));
}

/// Extends googletest's filter to exclude tests that are not meant for this number of ranks, by their file or by themselves, or whose file was not
/// selected.
void leave_out_others(int ranks, const std::string& only) {
  std::string others;
  const auto& tests = *testing::UnitTest::GetInstance();
  for (int s = 0; s < tests.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *tests.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      const std::filesystem::path file = test.file();
      const bool wanted = only.empty() ? is_meant(file.filename().string(), ranks) : file.stem() == only;
      const std::string name = std::string(suite.name()) + '.' + test.name();
      const auto [least, most] = ranks_of_tests()[name];
      const bool fits = ranks == tw::testing::without_mpi || (ranks >= least && ranks <= most);
      if (!wanted || !fits) others += ':' + name;
    }
  }
  if (others.empty()) return;
  const std::string filter = testing::GTEST_FLAG(filter);
  testing::GTEST_FLAG(filter) = filter + (filter.find('-') == std::string::npos ? "-" : ":") + others.substr(1);
}

/// Chooses the device for tensors. Collective. @throws tw::Error if there is no such device
void use_device(const std::string& kind, const tw::Communicator& comm) {
  if (kind != "simulated") {
    device_of_tests = tw::device_of_rank(comm, kind);
    // Tests compare with sums in a different order, to the last bits of a dtype.
    at::globalContext().setAllowTF32CuDNN(false);
    at::globalContext().setDeterministicCuDNN(true);
    return;
  }
  const int devices = is_direct_between_devices ? 3 : 2;
  tw::testing::accelerator::install(devices);
  device_of_tests = tw::testing::accelerator::device(comm.rank() % devices);
  c10::impl::VirtualGuardImpl(device_of_tests.type()).setDevice(device_of_tests);
}

}  // namespace

const tw::Communicator& tw::testing::world() { return *world_of_tests; }
c10::Device tw::testing::device() { return device_of_tests; }
bool tw::testing::on_a_real_device() { return !device_of_tests.is_cpu() && device_of_tests.type() != accelerator::device().type(); }
at::Tensor tw::testing::place(const at::Tensor& tensor) {
  if (on_a_real_device()) {
    tensor.set_data(tensor.detach().to(device_of_tests));
  } else if (!device_of_tests.is_cpu()) {
    accelerator::move(tensor, device_of_tests);
  }
  return tensor;
}
void tw::testing::expect_host_waits(int64_t times, const std::function<void()>& f, std::source_location where) {
  const int64_t before = accelerator::host_waits();
  f();
  if (on_a_real_device()) return leave_out("what the host waits for is not counted");
  const int64_t waits = accelerator::host_waits() - before;
  if (waits == times) return;
  ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line())) << "the host waits " << waits << " times for the device, not " << times;
}
void tw::testing::leave_out(const std::string& what) { left_out.insert(what); }
bool tw::testing::note_ranks(const std::string& test, RankCount ranks) {
  ranks_of_tests()[test] = ranks;
  return true;
}

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  bool starts_mpi = true;
  bool by_thread = false;
  bool direct = false;
  std::string kind;
  std::string only;
  tw::EnvironmentOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--without-mpi") starts_mpi = false;
    if (argument == "--progress-thread") by_thread = true;
    if (argument.starts_with("--device=")) kind = argument.substr(9);
    if (argument == "--direct") direct = true;
    if (argument == "--nccl") {
      accelerator::offer_nccl();
      setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
    }
    if (argument == "--ipc") accelerator::offer_ipc();
    is_direct_between_devices |= argument == "--nccl" || argument == "--ipc";
    if (argument.starts_with("--largest-message=")) options.largest_message = largest_message_of(argument.substr(18));
    if (argument.starts_with("--file=")) only = argument.substr(7);
  }
  if (!starts_mpi) {
    leave_out_others(tw::testing::without_mpi, only);
    return RUN_ALL_TESTS();
  }
  options.thread_level = kind.empty() ? tw::ThreadLevel::funneled : tw::ThreadLevel::serialized;  // autograd uses threads
  options.progress = by_thread ? tw::ProgressDriver::thread : tw::ProgressDriver::inlined;
  if (direct) options.device_aware = true;
  tw::Environment mpi(argc, argv, options);
  if (direct) tw::testing::accelerator::let_mpi_see(tw::testing::accelerator::MpiSight::memory);
  const tw::Communicator comm = mpi.world().dup();
  world_of_tests = &comm;
  try {
    if (!kind.empty()) use_device(kind, comm);
  } catch (const tw::Error& error) {  // on all ranks
    if (comm.rank() == 0) std::cout << "SKIPPED: " << error.what() << std::endl;
    return 77;
  }
  leave_out_others(comm.size(), only);
  if (options.largest_message != tw::EnvironmentOptions().largest_message && comm.rank() == 0) {
    std::cout << "largest message: " << options.largest_message << std::endl;
  }

  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  auto* reporter = new RankReporter;  // googletest owns it
  listeners.Append(reporter);
  const int outcome = RUN_ALL_TESTS();
  return outcome == 0 && reporter->failures() == 0 ? 0 : 1;
}
