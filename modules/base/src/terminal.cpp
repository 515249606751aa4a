// SPDX-License-Identifier: Apache-2.0
#include <tw/base/concat.hpp>
#include <tw/base/terminal.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

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

}  // namespace tw
