// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "signals.hpp"

namespace signals_test {

/// Makes stdout a pipe for its own lifetime.
class PipedOutput {
 public:
  PipedOutput() : before_(::dup(STDOUT_FILENO)) {
    EXPECT_EQ(::pipe(pipe_.data()), 0);
    ::dup2(pipe_[1], STDOUT_FILENO);
  }
  ~PipedOutput() {
    ::dup2(before_, STDOUT_FILENO);
    for (const int each : {before_, pipe_[0], pipe_[1]}) ::close(each);
  }
  PipedOutput(const PipedOutput&) = delete;
  PipedOutput& operator=(const PipedOutput&) = delete;

  static bool waits() { return (::fcntl(STDOUT_FILENO, F_GETFL) & O_NONBLOCK) == 0; }
  void write() const { EXPECT_EQ(::write(pipe_[1], "x", 1), 1); }

 private:
  int before_;
  std::array<int, 2> pipe_{};
};

/// Whether writing to stdout blocks while Signals exist that have received SIGTERM, and after them. @param unread whether written output stays unread
std::pair<bool, bool> waits(bool unread) {
  const PipedOutput output;
  bool meanwhile = false;
  {
    const tw::train::Signals signals;
    ::raise(SIGTERM);
    EXPECT_EQ(tw::train::Signals::caught(), "SIGTERM");
    meanwhile = PipedOutput::waits();
    if (unread) output.write();
  }
  return {meanwhile, PipedOutput::waits()};
}

TEST(Signals, LeaveOutputAsItWas) {
  const char* before = std::getenv("OMPI_COMM_WORLD_SIZE");
  const std::string kept = before == nullptr ? "" : before;
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(waits(false), std::pair(true, true));  // stdout may be a shell's as well
  ::setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
  EXPECT_EQ(waits(false), std::pair(false, true));
  EXPECT_EQ(waits(true), std::pair(false, false));  // nobody reads any more
  if (before == nullptr) {
    ::unsetenv("OMPI_COMM_WORLD_SIZE");
  } else {
    ::setenv("OMPI_COMM_WORLD_SIZE", kept.c_str(), 1);
  }
}

}  // namespace signals_test
