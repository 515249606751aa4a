// SPDX-License-Identifier: Apache-2.0
#include "child_process.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <thread>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>

#include "command_template.hpp"

namespace tw::tool {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<std::string> all_lines(ChildProcess& child) {
  std::vector<std::string> all;
  while (!child.ended()) {
    for (const std::string& line : child.read_lines(seconds(1))) all.push_back(line);
  }
  return all;
}

/// A line that says the number of a process.
pid_t pid_from(ChildProcess& child) {
  const std::vector<std::string> lines = child.read_lines(seconds(20));
  return lines.empty() ? -1 : std::stoi(lines.front());
}

bool exists(pid_t pid) { return ::kill(pid, 0) == 0; }  // zombies do

/// Whether it comes to an end within 20 s, of which it needs microseconds. Orphans come to this process.
bool goes_away(pid_t pid) {
  const Stopwatch watch;
  while (exists(pid) && watch.elapsed() < seconds(20)) {
    if (::waitpid(-1, nullptr, WNOHANG) <= 0) std::this_thread::sleep_for(milliseconds(1));
  }
  return !exists(pid);
}

TEST(ChildProcess, GivesItsLinesAndHowItEnded) {
  ChildProcess child("echo one; echo; echo two; printf three; echo wrong >&2; echo >&2; exit 3");
  EXPECT_EQ(all_lines(child), (std::vector<std::string>{"one", "two", "three"}));
  EXPECT_EQ(child.failure(), "exit code 3");
  EXPECT_EQ(child.last_error(), "wrong");
}

TEST(ChildProcess, EndsWell) {
  ChildProcess child("read nothing; exit 0");  // from an empty input
  EXPECT_TRUE(all_lines(child).empty());
  EXPECT_EQ(child.failure(), "");
}

TEST(ChildProcess, LinesComeAsTheyArePrinted) {
  ChildProcess child("echo first; sleep 1000");
  EXPECT_EQ(child.read_lines(seconds(20)), std::vector<std::string>{"first"});
  const Stopwatch watch;
  EXPECT_TRUE(child.read_lines(milliseconds(30)).empty());
  EXPECT_GE(watch.elapsed(), milliseconds(30));
  EXPECT_FALSE(child.ended());
}

TEST(ChildProcess, TerminatesItsGroupAndLeavesNothing) {
  ChildProcess child("sleep 1000 & echo $!; wait");
  const pid_t sleeper = pid_from(child);
  ASSERT_GT(sleeper, 0);
  EXPECT_TRUE(exists(sleeper));
  child.terminate();
  all_lines(child);
  EXPECT_EQ(child.failure(), "signal 15 (Terminated)");
  EXPECT_FALSE(exists(sleeper));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
  EXPECT_EQ(errno, ECHILD);
}

TEST(ChildProcess, KillsWhatWillNotEnd) {
  ChildProcess child("trap '' TERM; (trap '' TERM; echo $$; while :; do sleep 1; done) & wait; while :; do sleep 1; done");
  EXPECT_FALSE(child.read_lines(seconds(20)).empty());
  child.terminate();
  child.read_lines(milliseconds(50));
  EXPECT_FALSE(child.ended());
  child.kill();
  EXPECT_TRUE(child.ended());
  EXPECT_EQ(child.failure(), "signal 9 (Killed)");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(ChildProcess, WhatItLeftBehindEndsToo) {
  ChildProcess child("sleep 1000 & echo $!");
  const pid_t sleeper = pid_from(child);
  ASSERT_GT(sleeper, 0);
  all_lines(child);
  EXPECT_FALSE(exists(sleeper));
  EXPECT_EQ(child.failure(), "");
}

TEST(ChildProcess, EndsWithItsObject) {
  pid_t sleeper = -1;
  {
    ChildProcess child("sleep 1000 & echo $!; wait");
    sleeper = pid_from(child);
    ASSERT_GT(sleeper, 0);
    EXPECT_TRUE(exists(sleeper));
  }
  EXPECT_FALSE(exists(sleeper));
}

/// A process in between starts a program, and is killed.
TEST(ChildProcess, EndsWithItsProcess) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    ChildProcess child("sleep 1000 & echo $!; wait");
    const pid_t sleeper = pid_from(child);
    (void)!::write(ends[1], &sleeper, sizeof sleeper);
    ::pause();
  }
  pid_t sleeper = -1;
  ASSERT_EQ(::read(ends[0], &sleeper, sizeof sleeper), static_cast<ssize_t>(sizeof sleeper));
  ASSERT_GT(sleeper, 0);
  EXPECT_TRUE(exists(sleeper));
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  EXPECT_TRUE(goes_away(sleeper));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(ChildProcess, OutputWithoutEndDoesNotHold) {
  ChildProcess child("yes");
  const Stopwatch watch;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(child.read_lines(seconds(20)).empty());
  child.kill();
  EXPECT_LT(watch.elapsed(), seconds(20));
}

TEST(ChildProcess, LinesThatAreTooLongAreLeftOut) {
  ChildProcess child("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo good");
  EXPECT_EQ(all_lines(child), std::vector<std::string>{"good"});
}

TEST(ChildProcess, DoesNotSeeHiddenVariablesNorOpenFiles) {
  ::setenv("PMIX_RANK", "3", 1);
  ::setenv("TW_SEEN", "yes", 1);
  const int open_file = ::dup2(STDERR_FILENO, 77);  // without close-on-exec
  ChildProcess child("echo \"$PMIX_RANK|$TW_SEEN\"; test -e /proc/self/fd/77 || echo closed", {"OMPI_", "PMIX_"});
  EXPECT_EQ(all_lines(child), (std::vector<std::string>{"|yes", "closed"}));
  ::close(open_file);
}

TEST(ChildProcess, ManyInARow) {
  for (int i = 0; i < 50; ++i) {
    ChildProcess child(concat("echo ", i));
    EXPECT_EQ(all_lines(child), std::vector<std::string>{std::to_string(i)});
  }
}

TEST(CommandTemplate, FillsInWhatItKnows) {
  const std::map<std::string, std::string> values{{"dt", "1e-3"}, {"scheme", "leap frog's"}, {"optimizer.lr", "0.1"}, {"none", ""}};
  EXPECT_EQ(fill_in("./simulate --dt {dt} --scheme={scheme}", values), "./simulate --dt 1e-3 --scheme='leap frog'\\''s'");
  EXPECT_EQ(fill_in("{dt}{dt} {optimizer.lr}", values), "1e-31e-3 0.1");
  EXPECT_EQ(fill_in("awk 'BEGIN{print {dt}}' ${dt} {other} {", values), "awk 'BEGIN{print 1e-3}' ${dt} {other} {");
  EXPECT_EQ(fill_in("{none}", values), "''");
  EXPECT_EQ(fill_in("", values), "");
}

TEST(CommandTemplate, NamesWhatStandsInBraces) {
  EXPECT_EQ(names_in_braces("a {b} ${c} {d.e} {f g} {{h}} {}"), (std::vector<std::string>{"b", "d.e", "h"}));
}

}  // namespace
}  // namespace tw::tool
