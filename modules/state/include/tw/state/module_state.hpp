// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace torch::nn {
class Module;
}

namespace tw {

/// The parameters and then the buffers of `module`, as shards that every rank holds whole. Each tensor appears once, under its first name; its other
/// names are aliases.
std::vector<NamedShard> module_shards(const torch::nn::Module& module);

/// The names of submodules that contain neither parameters nor buffers at any depth, such as activations. LibTorch expects them in its files; see
/// export_for_libtorch().
std::vector<std::string> empty_submodules(const torch::nn::Module& module);

}  // namespace tw
