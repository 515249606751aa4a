// SPDX-License-Identifier: Apache-2.0
#include "watched.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

namespace tw::tool {
namespace {

volatile pid_t child_of_handler = 0;
volatile std::sig_atomic_t told_to_end = 0;

// When another rank has crashed, the launcher ends this process, which must report that first.
void pass_on(int signal) {
  told_to_end = signal;
  kill(child_of_handler, SIGKILL);
}

// Reads what the child writes until it has ended, and returns the last line.
std::string last_line(int fd) {
  std::string line;
  std::array<char, 512> piece{};
  while (true) {
    const ssize_t count = read(fd, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    line.append(piece.data(), static_cast<size_t>(count));
    const size_t last = line.find_last_of('\n', line.size() - 2);
    if (line.ends_with('\n') && last != std::string::npos) line.erase(0, last + 1);
  }
  if (line.ends_with('\n')) line.pop_back();
  return line;
}

std::string how_it_ended(int status) {
  if (told_to_end != 0) return "";
  const int signal = WTERMSIG(status);
  return concat("signal ", signal, " (", strsignal(signal), ")");
}

}  // namespace

int watched(const std::function<int(const std::function<void(std::string_view)>& about_to)>& run,
            const std::function<void(const std::string& doing, const std::string& end)>& crashed) {
  std::array<int, 2> pipe_ends{};
  if (pipe(pipe_ends.data()) != 0) throw Error(concat("a pipe cannot be created: ", std::strerror(errno)));
  const pid_t child = fork();
  if (child < 0) throw Error(concat("a child process cannot be started: ", std::strerror(errno)));
  if (child == 0) {
    close(pipe_ends[0]);
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    const auto about_to = [out = pipe_ends[1]](std::string_view doing) {
      const std::string line = concat(doing, '\n');
      [[maybe_unused]] const ssize_t written = write(out, line.data(), line.size());
    };
    return [&]() noexcept { return run(about_to); }();  // an exception crashes the child, which the parent reports
  }
  close(pipe_ends[1]);
  child_of_handler = child;
  std::signal(SIGTERM, pass_on);
  const std::string doing = last_line(pipe_ends[0]);
  close(pipe_ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  crashed(doing, how_it_ended(status));
  return 1;
}

}  // namespace tw::tool
