// SPDX-License-Identifier: Apache-2.0
#include <tw/base/concat.hpp>
#include <tw/base/terminal.hpp>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

namespace tw {

bool output_is_terminal() {
  if (::isatty(STDOUT_FILENO) == 0) return false;
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return true;
  const int launcher_output = ::open(concat("/proc/", ::getppid(), "/fd/1").c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (launcher_output < 0) return false;
  const bool terminal = ::isatty(launcher_output) != 0;
  ::close(launcher_output);
  return terminal;
}

bool wait_until_output_is_read(std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  bool all_read = true;
  for (const int output : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat info = {};
    if (::fstat(output, &info) != 0 || !S_ISFIFO(info.st_mode)) continue;
    int waiting = 0;  // bytes
    while (::ioctl(output, FIONREAD, &waiting) == 0 && waiting > 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    all_read = all_read && waiting == 0;
  }
  return all_read;
}

}  // namespace tw
