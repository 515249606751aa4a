// SPDX-License-Identifier: Apache-2.0
// One function per command: it adds the command to the command line. A command asks `session` for MPI when it needs ranks.
#pragma once
#include <CLI/App.hpp>

#include "session.hpp"

namespace tw::tool {

/// torchweave train CONFIG [--set key=value]... [--data DIR]
void add_train(CLI::App& app, Session& session);
/// torchweave search CONFIG [--set key=value]... [--data DIR] [--fresh]
/// torchweave search --space FILE --command TEXT [--timeout S] [--set key=value]... [--fresh]
/// torchweave search --status FOLDER
/// torchweave search --enqueue JSON|FILE FOLDER
void add_search(CLI::App& app, Session& session);
/// torchweave bench comm [--op NAME...] [--backend NAME...] [--compare mpi] ...
void add_bench(CLI::App& app, Session& session);
/// torchweave checkpoint show|verify|export DIR ...
void add_checkpoint(CLI::App& app, Session& session);
/// torchweave plan pipeline --model mlp|transformer|PROFILE --devices D [--memory SIZE] [--batch N] [--explain] ...
/// torchweave plan pipeline --model lenet|mlp|resnet|convnet|gpt|NAME.pt --profile measured --devices D [--input SHAPE] [--show-graph] ...
void add_plan_pipeline(CLI::App& plan, Session& session);
/// torchweave plan layers --layers N --ranks P [--step-ms T] [--message-us M] [--coarsening C...]
void add_plan_layers(CLI::App& plan, Session& session);
/// torchweave keys
void add_keys(CLI::App& app, Session& session);
/// torchweave doctor [--gpu-direct]
void add_doctor(CLI::App& app, Session& session);
/// torchweave selftest [--json FILE] [--limit SECONDS]
void add_selftest(CLI::App& app, Session& session);
/// torchweave launch [-n N] [--hosts a:2,b:2] [--restart K] ... -- PROGRAM ARGUMENTS...
void add_launch(CLI::App& app);

}  // namespace tw::tool
