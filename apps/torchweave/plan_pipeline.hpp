// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <CLI/App.hpp>
#include <functional>

#include "session.hpp"

namespace tw::tool {

/// The part of `torchweave plan` that plans stages, replicas and micro-batches.
struct PipelinePlanning {
  CLI::Option* model;                         ///< --model: given where this is what the user asks for
  std::function<void(Session& session)> run;  ///< searches and prints, on the first rank. Collective
};

/// Adds its options to `command`, in a group of their own.
PipelinePlanning add_pipeline_planning(CLI::App& command);

}  // namespace tw::tool
