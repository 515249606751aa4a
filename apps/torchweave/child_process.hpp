// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tw::tool {

/// A child program: `/bin/sh -c COMMAND`, in its own process group. The whole group ends with the program, with this object, and with this process,
/// even if this process is killed. Nothing of the group is left, not even zombies: orphans of the group become children of this process, which is a
/// subreaper (Linux) from then on. Processes that leave the group are not ended.
class ChildProcess {
 public:
  /// inherited: this process's standard input, unless that is a terminal.
  enum class Input { empty, inherited };

  /// @param hidden prefixes of environment variables that the program must not see. @throws Error
  explicit ChildProcess(const std::string& command, const std::vector<std::string>& hidden = {}, Input input = Input::empty);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// The lines that it has printed since the last call. Waits at most `patience` for a line or the end. Lines of more than 1 MiB are left out.
  std::vector<std::string> read_lines(std::chrono::milliseconds patience);
  /// Whether it has ended and all of its lines have been read.
  bool ended() const noexcept { return ended_; }
  /// Sends a signal to the program, but not to the rest of its group.
  void signal(int number) const;
  /// Asks the group to end, by SIGTERM.
  void terminate() const;
  /// Ends the group, by SIGKILL.
  void kill();

  /// Its exit code; empty if a signal ended it, or if it has not ended.
  std::optional<int> exit_code() const;
  /// How it ended: "exit code 3", "signal 9 (Killed)"; empty if it succeeded or has not ended.
  std::string failure() const;
  /// The last nonempty line that it wrote to standard error.
  const std::string& last_error() const noexcept { return errors_.last; }

 private:
  /// The reading end of a pipe, and the part of a line that has arrived.
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
  int guard_ = -1;  // the group lives as long as this is open
  Output lines_ = {};
  Output errors_ = {};
  bool ended_ = false;
  int status_ = 0;
};

}  // namespace tw::tool
