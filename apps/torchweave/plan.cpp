// SPDX-License-Identifier: Apache-2.0
#include "plan.hpp"

#include "commands.hpp"

namespace tw::tool {

void add_plan(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("plan", "Predict what ranks would gain, and recommend how to use them; trains nothing");
  command->require_subcommand(1);
  add_plan_pipeline(*command, session);
  add_plan_layers(*command, session);
}

}  // namespace tw::tool
