// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace torch::nn {
class Module;
}

namespace tw {

/// Parameters and then buffers of `module`, for ranks that all hold it whole: each tensor once, under its first name, with its other names as
/// aliases.
std::vector<NamedShard> module_shards(const torch::nn::Module& module);

/// The names of submodules that have neither parameters nor buffers, such as activations. LibTorch wants to find them in its files; see
/// export_for_libtorch().
std::vector<std::string> empty_submodules(const torch::nn::Module& module);

}  // namespace tw
