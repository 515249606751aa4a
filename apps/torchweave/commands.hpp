// SPDX-License-Identifier: Apache-2.0
// One function a subcommand; each adds itself to the command line.
#pragma once
#include <CLI/App.hpp>

namespace tw {
class Environment;
}

namespace tw::tool {

/// torchweave train CONFIG [--set key=value]... [--data DIR]
void add_train(CLI::App& app, Environment& mpi);
/// torchweave search CONFIG [--set key=value]... [--data DIR] [--fresh]
/// torchweave search --space FILE --command TEXT [--timeout S] [--set key=value]... [--fresh]
/// Not --status and --enqueue: search_desk.hpp
void add_search(CLI::App& app, Environment& mpi);
/// torchweave bench comm [--op NAME...] [--backend NAME...] [--compare mpi] ...
void add_bench(CLI::App& app, Environment& mpi);
/// torchweave checkpoint show|verify|export DIR ...
void add_checkpoint(CLI::App& app, Environment& mpi);
/// torchweave plan --layer-parallel N --ranks P [--step-ms T] [--message-us M] [--coarsening C...]
/// torchweave plan --model mlp|transformer|PROFILE --devices D [--memory SIZE] [--batch N] [--explain] ...
/// torchweave plan --model lenet|mlp|resnet|gpt|NAME.pt --profile measured --devices D [--input SHAPE] [--show-graph] ...
void add_plan(CLI::App& app, Environment& mpi);
/// torchweave keys
void add_keys(CLI::App& app, Environment& mpi);
/// torchweave doctor
void add_doctor(CLI::App& app, Environment& mpi);

}  // namespace tw::tool
