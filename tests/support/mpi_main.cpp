// SPDX-License-Identifier: Apache-2.0
// The main() of every MPI test: all ranks run the same tests; rank 0 prints what any of them found. With --progress-thread, a thread drives the
// engine.
#include "mpi_test.hpp"

#include <iostream>
#include <string_view>
#include <tw/comm/objects.hpp>

namespace {

const tw::Communicator* world_of_tests = nullptr;

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

}  // namespace

const tw::Communicator& tw::testing::world() { return *world_of_tests; }

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const bool by_thread = argc > 1 && std::string_view(argv[1]) == "--progress-thread";
  tw::Environment mpi(argc, argv, {.progress = by_thread ? tw::ProgressDriver::thread : tw::ProgressDriver::inlined});
  const tw::Communicator comm = mpi.world().dup();
  world_of_tests = &comm;

  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  auto* reporter = new RankReporter;  // googletest owns it
  listeners.Append(reporter);
  const int outcome = RUN_ALL_TESTS();
  return outcome == 0 && reporter->failures() == 0 ? 0 : 1;
}
