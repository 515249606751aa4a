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

/// Prints what each of `operations` x size x method costs on `cluster`, and what would be taken. Pure.
void predict(const algorithms::Cluster& cluster, const std::vector<std::string>& operations, int64_t min_bytes, int64_t max_bytes, std::ostream& out);

}  // namespace tw::tool
