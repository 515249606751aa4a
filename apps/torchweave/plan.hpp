// SPDX-License-Identifier: Apache-2.0
// The commands below `torchweave plan`.
#pragma once
#include <CLI/App.hpp>

#include "session.hpp"

namespace tw::tool {

void add_plan_layers(CLI::App& plan, Session& session);
void add_plan_pipeline(CLI::App& plan, Session& session);

}  // namespace tw::tool
