// SPDX-License-Identifier: Apache-2.0
#include "child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <utility>

namespace tw::tool {
namespace {

constexpr size_t longest_line = size_t{1} << 20U;
constexpr int max_reads = 32;  // per call: more than a pipe holds, and a limit for programs that never stop printing
constexpr auto poll_interval = std::chrono::milliseconds(5);

// $0 is the command. Its companion waits until the other end of pipe 3 is closed, which happens when this process ends, and then kills the group.
constexpr const char* guarded = R"((trap '' TERM INT HUP; read -r gone <&3; kill -KILL 0) >/dev/null 2>&1 & exec 3<&-; exec /bin/sh -c "$0")";

void expect(int error, const char* what) {
  if (error != 0) throw Error(concat("a program cannot be started: ", what, ": ", std::strerror(error)));
}

// Closes both ends.
struct Pipe {
  Pipe() { expect(::pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno, "pipe"); }
  ~Pipe() {
    for (const int end : ends) {
      if (end >= 0) ::close(end);
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  int keep(size_t end) { return std::exchange(ends[end], -1); }

  std::array<int, 2> ends{-1, -1};
};

std::vector<char*> environment_without(const std::vector<std::string>& hidden) {
  std::vector<char*> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    if (std::none_of(hidden.begin(), hidden.end(), [&](const std::string& beginning) { return text.starts_with(beginning); }))
      kept.push_back(*variable);
  }
  kept.push_back(nullptr);
  return kept;
}

pid_t spawn(const std::string& command, char* const* environment, bool inherits_input, int guard, int output, int errors) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  expect(posix_spawn_file_actions_init(&files), "file actions");
  expect(posix_spawnattr_init(&attributes), "attributes");
  if (!inherits_input) posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&files, guard, 3);
  posix_spawn_file_actions_addclosefrom_np(&files, 4);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::array<std::string, 4> words{"/bin/sh", "-c", guarded, command};
  std::array<char*, 5> arguments{words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, "/bin/sh", &files, &attributes, arguments.data(), environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  expect(error, "/bin/sh");
  return pid;
}

void set_non_blocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

ChildProcess::ChildProcess(const std::string& command, const std::vector<std::string>& hidden, Input input) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  Pipe guard;
  Pipe output;
  Pipe errors;
  const std::vector<char*> environment = environment_without(hidden);
  // A separate process group may not read from a terminal: it would be stopped.
  const bool inherits_input = input == Input::inherited && ::isatty(STDIN_FILENO) == 0;
  pid_ = spawn(command, environment.data(), inherits_input, guard.ends[0], output.ends[1], errors.ends[1]);
  guard_ = guard.keep(1);
  lines_.fd = output.keep(0);
  errors_.fd = errors.keep(0);
  set_non_blocking(lines_.fd);
  set_non_blocking(errors_.fd);
}

ChildProcess::~ChildProcess() {
  if (!ended_) reap();
  for (const int fd : {guard_, lines_.fd, errors_.fd}) {
    if (fd >= 0) ::close(fd);
  }
}

std::vector<std::string> ChildProcess::read_lines(std::chrono::milliseconds patience) {
  std::vector<std::string> lines;
  const Stopwatch watch;
  while (!ended_) {
    const bool exited = has_exited();
    if (exited) reap();  // nothing writes any more
    take(lines_, &lines);
    take(errors_, nullptr);
    if (exited) {  // the last line may lack a line end
      end_line(lines_, &lines);
      end_line(errors_, nullptr);
    }
    if (!lines.empty() || watch.elapsed() >= patience) break;
    const bool closed = lines_.fd < 0 && errors_.fd < 0;
    std::array<pollfd, 2> waits{pollfd{lines_.fd, POLLIN, 0}, pollfd{errors_.fd, POLLIN, 0}};  // poll() ignores closed ends, -1
    ::poll(waits.data(), waits.size(), static_cast<int>(closed ? 1 : std::min<int64_t>(poll_interval.count(), patience.count())));
  }
  return lines;
}

void ChildProcess::take(Output& output, std::vector<std::string>* lines) {
  std::array<char, 65536> buffer;
  for (int reads = 0; reads < max_reads && output.fd >= 0; ++reads) {
    const ssize_t count = ::read(output.fd, buffer.data(), buffer.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count <= 0) {
      ::close(std::exchange(output.fd, -1));
      return;
    }
    std::string_view text(buffer.data(), static_cast<size_t>(count));
    while (!text.empty()) {
      const size_t end = text.find('\n');
      output.part += text.substr(0, end);
      if (output.part.size() > longest_line) {
        output.part.clear();
        output.too_long = true;
      }
      if (end == std::string_view::npos) break;
      text.remove_prefix(end + 1);
      end_line(output, lines);
    }
  }
}

void ChildProcess::end_line(Output& output, std::vector<std::string>* lines) {
  if (!output.too_long && !output.part.empty()) {
    output.last = output.part;
    if (lines != nullptr) lines->push_back(output.part);
  }
  output.part.clear();
  output.too_long = false;
}

bool ChildProcess::has_exited() const {
  siginfo_t info = {};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
}

void ChildProcess::signal(int number) const {
  if (!ended_) ::kill(pid_, number);
}

void ChildProcess::terminate() const {
  if (!ended_) ::kill(-pid_, SIGTERM);
}

void ChildProcess::kill() {
  if (!ended_) reap();
}

/// The group's number is not reused before its first process, even a dead one, has been waited for.
void ChildProcess::reap() {
  ::kill(-pid_, SIGKILL);
  while (true) {
    int status = 0;
    const pid_t gone = ::waitpid(-pid_, &status, 0);
    if (gone == pid_) status_ = status;
    if (gone < 0 && errno != EINTR) break;
  }
  ended_ = true;
}

std::optional<int> ChildProcess::exit_code() const {
  if (!ended_ || !WIFEXITED(status_)) return {};
  return WEXITSTATUS(status_);
}

std::string ChildProcess::failure() const {
  if (!ended_ || status_ == 0) return {};
  if (WIFSIGNALED(status_)) return concat("signal ", WTERMSIG(status_), " (", ::strsignal(WTERMSIG(status_)), ")");
  return concat("exit code ", WEXITSTATUS(status_));
}

}  // namespace tw::tool
