// SPDX-License-Identifier: Apache-2.0
#include <tw/search/attachment.hpp>

#include <torch/nn/module.h>
#include <memory>
#include <tw/state/module_state.hpp>
#include <tw/state/optimizer_state.hpp>

namespace tw::search {

Attachment attachment_of(std::vector<NamedTensor> tensors) {
  return {.shards = [tensors = std::move(tensors)] {
    std::vector<NamedShard> shards;
    for (const auto& [name, tensor] : tensors) shards.push_back(whole(name, tensor, ShardKind::parameter));
    return shards;
  }};
}

Attachment attachment_of(const torch::nn::Module& module, torch::optim::Optimizer& optimizer) {
  std::vector<NamedTensor> parameters;
  for (const auto& each : module.named_parameters()) parameters.push_back({each.key(), each.value()});
  const auto remembered = std::make_shared<OptimizerState>(optimizer, parameters);
  return {.shards =
              [&module, remembered] {
                std::vector<NamedShard> shards = module_shards(module);
                for (NamedShard& each : remembered->shards()) shards.push_back(std::move(each));
                return shards;
              },
          .prepare = [remembered](const std::vector<std::string>& names) { remembered->prepare(names); },
          .apply = [remembered](const std::vector<NamedShard>& shards) { remembered->apply(shards); }};
}

}  // namespace tw::search
