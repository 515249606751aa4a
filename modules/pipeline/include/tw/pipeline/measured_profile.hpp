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
  /// parameters' names, kind of device, number of LibTorch's threads, number of ranks that measure at once, size of `slices`, and rows of the
  /// example. The key does not identify the machine: use one directory per kind of machine. If a file is damaged or belongs to a different graph, a
  /// warning is logged, the profile is measured again, and the file is replaced. If several processes measure the same profile at a time, the first
  /// to finish writes the file, and the others return the profile in it.
  std::filesystem::path cache = {};
  /// The ranks with which this one holds slices of layers, such as those along a mesh axis `tensor`. They measure the same units at the same time, so
  /// that operators which communicate can do so, and the time of that counts. Null: operators do not communicate while they are measured.
  const Communicator* slices = nullptr;
};

/// Measures the cost of a graph's units on this machine. The profile's operators are graph::units_of(graph), in order. Each unit is run alone,
/// forward and backward, with the rows of `example` and with half of them; the two times define a line. Identical units share one
/// measurement. Bytes that autograd saves are counted in passes of the whole graph, for the unit that allocates them. On an accelerator, times
/// include the completion of the device work, and bytes are device memory. Local. Takes as long as about forty passes of the model if no two units
/// are identical.
/// @param bind returns the tensor of a parameter or buffer by its name. Measuring changes the values of buffers such as running means.
/// MeasureOptions::slices is ignored. @throws ContractError if the number of tensors in `example` is not that of the graph's inputs; FileError if the
/// cache cannot be written
Profile measured_profile(const graph::Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind,
                         const std::vector<at::Tensor>& example, const MeasureOptions& options = {});

/// measured_profile() by all ranks of `comm`; returns the same profile on all of them. Collective. Each rank measures some of the units; identical
/// units go to one rank. All ranks measure at once, so that shared cores are as busy as in training. Rank 0 reads and writes the cache.
/// @param comm contains all ranks of MeasureOptions::slices
/// @param graph the same on all ranks, except that slices may have different sizes. @param bind, example tensors of the same shapes on all ranks
/// @throws Error on every rank if any rank fails; if ranks with slices measure together, their communicator is revoked then
Profile measured_profile(const Communicator& comm, const graph::Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind,
                         const std::vector<at::Tensor>& example, const MeasureOptions& options = {});

}  // namespace tw::pipeline
