// SPDX-License-Identifier: Apache-2.0
#include "run_command.hpp"

int main(int argc, char** argv) {
  tw::tool::Session session;
  return session.finish(tw::tool::run_command(argc, argv, session));
}
