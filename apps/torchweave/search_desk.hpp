// SPDX-License-Identifier: Apache-2.0
// What one asks or tells a search that may be running: by its folder, without MPI.
#pragma once
#include <CLI/App.hpp>

namespace tw::tool {

/// Whether the command line is `torchweave search` with --status or --enqueue.
bool is_search_desk(int argc, char** argv);

/// torchweave search --status FOLDER
/// torchweave search --enqueue JSON|FILE FOLDER  @return the tool's exit code
int run_search_desk(int argc, char** argv);

}  // namespace tw::tool
