// SPDX-License-Identifier: Apache-2.0
#include <tw/state/module_state.hpp>

#include <torch/nn/module.h>

#include <unordered_map>

namespace tw {

std::vector<NamedShard> module_shards(const torch::nn::Module& module) {
  std::vector<NamedShard> shards;
  std::unordered_map<const c10::TensorImpl*, size_t> seen;
  const auto add = [&](const auto& entries, ShardKind kind) {
    for (const auto& entry : entries) {
      const auto [found, is_new] = seen.emplace(entry.value().unsafeGetTensorImpl(), shards.size());
      if (is_new) {
        shards.push_back(whole(entry.key(), entry.value(), kind));
      } else {
        shards[found->second].aliases.push_back(entry.key());
      }
    }
  };
  add(module.named_parameters(), ShardKind::parameter);
  add(module.named_buffers(), ShardKind::buffer);
  return shards;
}

std::vector<std::string> empty_submodules(const torch::nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& entry : module.named_modules("", false)) {
    if (entry.value()->parameters().empty() && entry.value()->buffers().empty()) names.push_back(entry.key());
  }
  return names;
}

}  // namespace tw
