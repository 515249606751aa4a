// SPDX-License-Identifier: Apache-2.0
#include "signals.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <tw/base/terminal.hpp>

namespace tw::train {
namespace {

volatile std::sig_atomic_t last_signal = 0;  // the only type a handler may write

volatile std::sig_atomic_t under_open_mpi = 0;
constexpr std::array outputs{STDOUT_FILENO, STDERR_FILENO};

// Open MPI's mpirun stops reading its ranks' output once it forwards SIGTERM: a rank that keeps printing would block instead of writing its
// checkpoint. From then on, output that is not read is dropped. Without mpirun, stdout may be shared with a shell, which would keep these flags.
extern "C" void remember(int signal) {
  last_signal = signal;
  if (signal != SIGTERM || under_open_mpi == 0) return;
  const int error = errno;
  for (const int output : outputs) fcntl(output, F_SETFL, fcntl(output, F_GETFL) | O_NONBLOCK);
  errno = error;
}

}  // namespace

Signals::Signals() {
  last_signal = 0;
  under_open_mpi = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr ? 1 : 0;
  for (size_t i = 0; i < outputs.size(); ++i) old_flags_[i] = fcntl(outputs[i], F_GETFL);
  struct sigaction action = {};
  action.sa_handler = remember;
  sigaction(SIGTERM, &action, &old_term_);  // without SA_RESTART: interrupts a blocked write
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, &old_usr1_);
}

Signals::~Signals() {
  sigaction(SIGTERM, &old_term_, nullptr);
  sigaction(SIGUSR1, &old_usr1_, nullptr);
  if (last_signal != SIGTERM || under_open_mpi == 0 || !wait_until_output_is_read(std::chrono::milliseconds(100))) return;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (old_flags_[i] >= 0) fcntl(outputs[i], F_SETFL, old_flags_[i]);
  }
}

std::string Signals::caught() {
  switch (last_signal) {
    case SIGTERM: return "SIGTERM";
    case SIGUSR1: return "SIGUSR1";
    default: return "";
  }
}

}  // namespace tw::train
