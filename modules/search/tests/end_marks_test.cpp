// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "end_marks.hpp"

namespace tw::search {
namespace end_marks_test {

/// How a process ends in which a signal is raised while rank `rank` of two has its mark: by the signal, or by its exit code.
int ended_by(const std::filesystem::path& folder, int rank, int signal) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(signal, SIG_DFL);  // UCX, of which MPICH is made, heeds SIGSEGV
    const EndMark mark(folder, 7, rank, 2);
    const EndMark inner(folder / "other", 8, 0, 1);
    std::raise(signal);
    _exit(100);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(EndMarks, AreLeftByWhoIsAskedToEnd) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "end_marks_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  EXPECT_TRUE(marked_workers(folder / "missing").empty());
  EXPECT_EQ(ended_by(folder, 0, SIGTERM), SIGTERM);
  EXPECT_TRUE(marked_workers(folder).empty()) << "the other rank may have ended by itself";
  EXPECT_EQ(ended_by(folder, 1, SIGKILL), SIGKILL);
  EXPECT_TRUE(marked_workers(folder).empty());
  EXPECT_EQ(ended_by(folder, 1, SIGSEGV), SIGSEGV);
  EXPECT_TRUE(marked_workers(folder).empty());
  EXPECT_EQ(ended_by(folder, 1, SIGUSR1), SIGUSR1);
  EXPECT_EQ(marked_workers(folder), std::set<int>{7});
  remove_end_marks(folder);
  EXPECT_TRUE(marked_workers(folder).empty());
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    for (const int rank : {0, 1}) EXPECT_EQ(ended_by(folder, rank, signal), signal);
    EXPECT_EQ(marked_workers(folder), std::set<int>{7}) << signal;
    remove_end_marks(folder);
  }
}

/// Whoever heeds a signal himself goes on to, and behind a mark's life all is as before.
TEST(EndMarks, LeaveOtherHandlersAlone) {
  const std::filesystem::path folder = ::testing::TempDir();
  const auto handler_of = [](int signal) {
    struct sigaction action = {};
    sigaction(signal, nullptr, &action);
    return action.sa_handler;
  };
  std::signal(SIGUSR1, SIG_IGN);
  {
    const EndMark mark(folder, 0, 0, 1);
    EXPECT_EQ(handler_of(SIGUSR1), SIG_IGN);
    EXPECT_NE(handler_of(SIGTERM), SIG_DFL);
  }
  EXPECT_EQ(handler_of(SIGTERM), SIG_DFL);
  std::signal(SIGUSR1, SIG_DFL);
}

}  // namespace end_marks_test
}  // namespace tw::search
