// SPDX-License-Identifier: Apache-2.0
// The main() of every MPI test: all ranks run the same tests, those of the files that are meant for this many; rank 0 prints what any of them found.
//   --file=NAME         the tests of that file alone, on any number of ranks
//   --progress-thread   a thread drives the engine
//   --device=simulated  tensors of tests that ask where lie on the simulated accelerator, rank r's on device r mod 2
#include "mpi_test.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <accelerator.hpp>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <tw/comm/objects.hpp>

namespace {

const tw::Communicator* world_of_tests = nullptr;
c10::Device device_of_tests(c10::kCPU);

std::map<std::string, tw::testing::RankCount>& ranks_of_tests() {
  static std::map<std::string, tw::testing::RankCount> ranks;
  return ranks;
}

/// Gathers the failures of all ranks at the end of each test.
class RankReporter : public testing::EmptyTestEventListener {
 public:
  int failures() const { return failures_; }

 private:
  void OnTestPartResult(const testing::TestPartResult& result) override {
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
      std::cout << (failed ? "[  FAILED  ] " : "[       OK ] ") << test.test_suite_name() << "." << test.name() << std::endl;
    }
  }

  std::string mine_;
  int failures_ = 0;
};

/// Adds to googletest's filter that tests are left out that are not meant for this many ranks, by their file or by themselves, or whose file is not
/// the one that is asked for.
void leave_out_others(int ranks, bool on_accelerator, const std::string& only) {
  std::string others;
  const auto& files = tw::testing::files_on_ranks(on_accelerator);
  const auto& tests = *testing::UnitTest::GetInstance();
  for (int s = 0; s < tests.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *tests.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      const std::filesystem::path file = test.file();
      const bool is_meant = only.empty() ? files.contains({file.filename().string(), ranks}) : file.stem() == only;
      const std::string name = std::string(suite.name()) + '.' + test.name();
      const auto [least, most] = ranks_of_tests()[name];
      if (!is_meant || ranks < least || ranks > most) others += ':' + name;
    }
  }
  if (others.empty()) return;
  const std::string filter = testing::GTEST_FLAG(filter);
  testing::GTEST_FLAG(filter) = filter + (filter.find('-') == std::string::npos ? "-" : ":") + others.substr(1);
}

}  // namespace

const tw::Communicator& tw::testing::world() { return *world_of_tests; }
c10::Device tw::testing::device() { return device_of_tests; }
at::Tensor tw::testing::place(const at::Tensor& tensor) {
  if (!device_of_tests.is_cpu()) accelerator::move(tensor, device_of_tests);
  return tensor;
}
bool tw::testing::note_ranks(const std::string& test, RankCount ranks) {
  ranks_of_tests()[test] = ranks;
  return true;
}

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  bool by_thread = false;
  bool on_accelerator = false;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--progress-thread") by_thread = true;
    if (argument == "--device=simulated") on_accelerator = true;
    if (argument.starts_with("--file=")) only = argument.substr(7);
  }
  tw::Environment mpi(argc, argv,
                      {.thread_level = on_accelerator ? tw::ThreadLevel::serialized : tw::ThreadLevel::funneled,  // autograd has threads
                       .progress = by_thread ? tw::ProgressDriver::thread : tw::ProgressDriver::inlined});
  const tw::Communicator comm = mpi.world().dup();
  world_of_tests = &comm;
  leave_out_others(comm.size(), on_accelerator, only);
  if (on_accelerator) {
    tw::testing::accelerator::install(2);
    device_of_tests = tw::testing::accelerator::device(comm.rank() % 2);
    c10::impl::VirtualGuardImpl(device_of_tests.type()).setDevice(device_of_tests);
  }

  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  auto* reporter = new RankReporter;  // googletest owns it
  listeners.Append(reporter);
  const int outcome = RUN_ALL_TESTS();
  return outcome == 0 && reporter->failures() == 0 ? 0 : 1;
}
