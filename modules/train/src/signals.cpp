// SPDX-License-Identifier: Apache-2.0
#include "signals.hpp"

namespace tw::train {
namespace {

volatile std::sig_atomic_t last_signal = 0;  // a handler may write nothing else

extern "C" void remember(int signal) { last_signal = signal; }

}  // namespace

Signals::Signals() {
  last_signal = 0;
  struct sigaction action = {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, &old_term_);
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
