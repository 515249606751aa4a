// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <ostream>
#include <string>
#include <tw/algorithms/price.hpp>
#include <vector>

namespace tw::tool {

/// A cluster from a file. @throws FileError, ConfigError
algorithms::Cluster read_cluster(const std::filesystem::path& file);

/// Prints the predicted time of each operation, size and method on `cluster`, and which method would be selected. Pure.
void predict(const algorithms::Cluster& cluster, const std::vector<std::string>& operations, int64_t min_bytes, int64_t max_bytes, std::ostream& out);

}  // namespace tw::tool
