// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/DeviceType.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <tw/graph/graph.hpp>
#include <tw/planning/profile.hpp>

namespace tw::pipeline {

/// The file of a measured profile; see MeasureOptions::cache. Local.
class ProfileCache {
 public:
  /// @param directory empty: nothing is read or written. @param kind of the device. @param ranks number of ranks that measure
  /// @param slices number of ranks that communicate in a measurement, because they hold slices of the same layers; 1: none. @param rows rows of the
  /// example
  ProfileCache(const std::filesystem::path& directory, const graph::Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind,
               c10::DeviceType kind, int ranks, int slices, int64_t rows);

  /// Reads the file. Empty if there is none, or if it cannot be used; then a warning that names it is logged.
  std::optional<Profile> read() const;
  /// Writes the file atomically, unless another process has written it since read(). Returns the profile of the file, so that all processes that
  /// measure the same model at a time continue with one profile. Without a directory, returns `profile`. @throws FileError
  Profile keep(const Profile& profile) const;

 private:
  std::filesystem::path path_;
  std::string hash_;  // hash of the graph
  size_t units_ = 0;  // number of units of the graph
};

}  // namespace tw::pipeline
