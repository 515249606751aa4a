// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw {

/// Reads this rank's `shards` from safetensors files. Collective. See ParallelModel::load().
void load_files(const Communicator& comm, const std::vector<NamedShard>& shards, const std::vector<std::filesystem::path>& files,
                const std::function<std::string(const std::string& name)>& name_in_files);

}  // namespace tw
