// SPDX-License-Identifier: Apache-2.0
#include <tw/graph/place_in_module.hpp>

namespace tw::graph {

std::pair<torch::nn::Module&, std::string> place_in_module(torch::nn::Module& root, const std::string& name,
                                                           const std::function<std::shared_ptr<torch::nn::Module>(const std::string& path)>& make) {
  torch::nn::Module* owner = &root;
  size_t begin = 0;
  for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', begin)) {
    const std::string child = name.substr(begin, dot - begin);
    const auto children = owner->named_children();
    if (const auto* found = children.find(child)) {
      owner = found->get();
    } else {
      owner = owner->register_module(child, make ? make(name.substr(0, dot)) : std::make_shared<torch::nn::Module>()).get();
    }
    begin = dot + 1;
  }
  return {*owner, name.substr(begin)};
}

}  // namespace tw::graph
