// SPDX-License-Identifier: Apache-2.0
#include <tw/graph/dry_run.hpp>

namespace tw::graph {
namespace {

thread_local int dry_runs = 0;

}  // namespace

DryRun::DryRun() noexcept { ++dry_runs; }
DryRun::~DryRun() { --dry_runs; }
bool DryRun::here() noexcept { return dry_runs > 0; }

}  // namespace tw::graph
