// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <tw/graph/graph.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/planning/profile.hpp>
#include <vector>

namespace tw::pipeline {

struct MeasureOptions {
  int repetitions = 5;  ///< runs per measurement; their median counts
  /// A directory, created where missing, that caches profiles as JSON, so that the same is measured once; empty: none. The file's name is
  /// the key: the graph's hash, a hash of the parameters that are trained, kind of device, LibTorch's threads, ranks that measure at once, and rows
  /// of the example. It does not identify the machine: keep a directory for each kind. A file that is damaged or of another graph causes a warning,
  /// and is measured again and replaced.
  std::filesystem::path cache = {};
};

/// What the units of a graph cost on this machine: its operators are graph::units_of(graph), in their order. Each is run alone, forward and backward,
/// on the rows of `example` and on half of them, whose times make a line; of units that are alike, one. The bytes that autograd keeps are counted in
/// one pass of the whole graph, at the unit that allocates them. On an accelerator, times last until it is done; bytes are those on it. Local; takes
/// some forty passes of the model if no two units are alike.
/// @param bind returns a parameter's or buffer's tensor by its name; running means are left changed.
/// @throws ContractError for an example that is not of as many tensors as the graph takes; FileError when the cache cannot be written
Profile measured_profile(const graph::Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind,
                         const std::vector<at::Tensor>& example, const MeasureOptions& options = {});

/// The same by all ranks of `comm`, and the same on all of them. Collective. Units are distributed, those that are alike to one rank, and all ranks
/// measure at once: where they share cores, so they will when they train. Rank 0 reads and writes the cache.
/// @param graph, bind, example of equal shapes everywhere
/// @throws Error on every rank what any rank finds
Profile measured_profile(const Communicator& comm, const graph::Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind,
                         const std::vector<at::Tensor>& example, const MeasureOptions& options = {});

}  // namespace tw::pipeline
