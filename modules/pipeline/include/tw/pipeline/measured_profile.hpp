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
  int repetitions = 5;  ///< runs per measurement, of which the median is used
  /// Directory that caches profiles as JSON, created if missing; empty: no cache. A file's name is its key: the graph's hash, a hash of the trained
  /// parameters, kind of device, LibTorch's threads, number of ranks that measure at once, and rows of the example. The key does not identify the
  /// machine: use one directory per kind of machine. If a file is damaged or belongs to a different graph, a warning is logged, and the profile is
  /// measured again and replaced. If several processes measure the same profile at a time, the first to finish writes the file, and the others return
  /// its profile.
  std::filesystem::path cache = {};
};

/// Measures the cost of a graph's units on this machine. The profile's operators are graph::units_of(graph), in order. Each unit is run alone,
/// forward and backward, with the rows of `example` and with half of them; the two times define a line. Identical units share one
/// measurement. Bytes that autograd saves are counted in one pass of the whole graph, for the unit that allocates them. On an accelerator, times
/// include the completion of the device work, and bytes are device memory. Local; takes about forty passes of the model if no two units are
/// identical.
/// @param bind returns the tensor of a parameter or buffer by its name; measuring changes running means.
/// @throws ContractError if the number of tensors in `example` is not the graph's; FileError if the cache cannot be written
Profile measured_profile(const graph::Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind,
                         const std::vector<at::Tensor>& example, const MeasureOptions& options = {});

/// The same, measured by all ranks of `comm`; returns the same profile on all. Collective. Units are distributed (identical ones to one rank), and
/// all ranks measure at once, so that shared cores are as busy as in training. Rank 0 reads and writes the cache.
/// @param graph, bind, example with the same shapes on all ranks
/// @throws Error on every rank if any rank fails
Profile measured_profile(const Communicator& comm, const graph::Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind,
                         const std::vector<at::Tensor>& example, const MeasureOptions& options = {});

}  // namespace tw::pipeline
