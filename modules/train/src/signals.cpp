// SPDX-License-Identifier: Apache-2.0
#include "signals.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace tw::train {
namespace {

volatile std::sig_atomic_t last_signal = 0;  // a handler may write nothing else

// Open MPI's mpirun stops reading what its ranks print as soon as it passes SIGTERM on: a rank that goes on printing would wait for ever, instead of
// writing its checkpoint. From then on output that nobody takes is lost.
extern "C" void remember(int signal) {
  last_signal = signal;
  if (signal != SIGTERM) return;
  const int error = errno;
  for (const int output : {STDOUT_FILENO, STDERR_FILENO}) fcntl(output, F_SETFL, fcntl(output, F_GETFL) | O_NONBLOCK);
  errno = error;
}

}  // namespace

Signals::Signals() {
  last_signal = 0;
  struct sigaction action = {};
  action.sa_handler = remember;
  sigaction(SIGTERM, &action, &old_term_);  // without SA_RESTART: it ends a write that waits
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, &old_usr1_);
}

Signals::~Signals() {
  sigaction(SIGTERM, &old_term_, nullptr);
  sigaction(SIGUSR1, &old_usr1_, nullptr);
}

std::string Signals::caught() {
  switch (last_signal) {
    case SIGTERM: return "SIGTERM";
    case SIGUSR1: return "SIGUSR1";
    default: return "";
  }
}

}  // namespace tw::train
