// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tw::tool {

/// A program beside this one: `/bin/sh -c COMMAND`, in a process group of its own. All of the group ends with the
/// program, with this object, and with this process, even where that is killed. Nothing of it is left, zombies included: orphans of the group become
/// children of this process, which is Linux's subreaper from then on. What leaves the group is on its own.
class ChildProcess {
 public:
  /// inherited: this process's standard input, unless that is a terminal.
  enum class Input { empty, inherited };

  /// @param hidden beginnings of names of variables that the program is not to see. @throws Error
  explicit ChildProcess(const std::string& command, const std::vector<std::string>& hidden = {}, Input input = Input::empty);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// The lines that it has printed since the last call; waits at most so long for one, or for the end. Lines of more than 1 MiB are left out.
  std::vector<std::string> read_lines(std::chrono::milliseconds patience);
  /// Whether it has ended, and all of its lines were read.
  bool ended() const noexcept { return ended_; }
  /// Sends the program, and not its group, a signal.
  void signal(int number) const;
  /// Asks the group to end, by SIGTERM.
  void terminate() const;
  /// Ends the group, by SIGKILL.
  void kill();

  /// Nothing: a signal ended it, or it has not ended.
  std::optional<int> exit_code() const;
  /// How it ended: "exit code 3", "signal 9 (Killed)"; empty: well, or not yet.
  std::string failure() const;
  /// The last line that it wrote to standard error that is not empty.
  const std::string& last_error() const noexcept { return errors_.last; }

 private:
  /// The reading end of a pipe, and what has come of a line.
  struct Output {
    int fd = -1;
    std::string part = {};
    bool too_long = false;
    std::string last = {};
  };

  static void take(Output& output, std::vector<std::string>* lines);
  static void end_line(Output& output, std::vector<std::string>* lines);
  bool has_exited() const;
  void reap();

  pid_t pid_ = -1;
  int guard_ = -1;  // as long as it is open, the group lives
  Output lines_ = {};
  Output errors_ = {};
  bool ended_ = false;
  int status_ = 0;
};

}  // namespace tw::tool
