// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/DeviceType.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <tw/graph/graph.hpp>
#include <tw/planning/profile.hpp>

namespace tw::pipeline {

/// Where a measured profile lies; see MeasureOptions::cache. Local.
class ProfileCache {
 public:
  /// @param directory empty: nothing is read or written. @param kind of the device. @param ranks that measure at once. @param rows of the example
  ProfileCache(const std::filesystem::path& directory, const graph::Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind,
               c10::DeviceType kind, int ranks, int64_t rows);

  /// Nothing where there is none, or none that can be used: then with a warning that names the file.
  std::optional<Profile> read() const;
  /// All of it or nothing, whatever happens meanwhile. @throws FileError
  void write(const Profile& profile) const;

 private:
  std::filesystem::path path_;
  std::string hash_;  // of the graph
  size_t units_ = 0;  // of it
};

}  // namespace tw::pipeline
