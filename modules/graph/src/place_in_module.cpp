// SPDX-License-Identifier: Apache-2.0
#include <tw/graph/place_in_module.hpp>

namespace tw::graph {

std::pair<torch::nn::Module&, std::string> place_in_module(torch::nn::Module& root, std::string name) {
  torch::nn::Module* owner = &root;
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.')) {
    const std::string child = name.substr(0, dot);
    const auto children = owner->named_children();
    const auto* found = children.find(child);
    owner = found != nullptr ? found->get() : owner->register_module(child, std::make_shared<torch::nn::Module>()).get();
    name.erase(0, dot + 1);
  }
  return {*owner, name};
}

}  // namespace tw::graph
