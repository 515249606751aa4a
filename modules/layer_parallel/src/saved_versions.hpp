// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <tw/base/contract.hpp>
#include <utility>
#include <vector>

namespace tw::layer_parallel {

/// Tensors that a backward pass reads again, with their versions in the forward pass. Autograd makes the same check for tensors that it saves.
class SavedVersions {
 public:
  void add(std::string name, const at::Tensor& tensor) {
    if (tensor.defined()) saved_.push_back({std::move(name), tensor, version_of(tensor)});
  }

  /// @throws ContractError that names the first tensor that was changed in place since it was added
  void expect_unchanged() const {
    for (const auto& [name, tensor, version] : saved_) {
      TW_EXPECTS(version_of(tensor) == version, "'", name, "' was changed in place between a forward pass and its backward pass: expected version ",
                 version, ", got ", version_of(tensor), ". Call backward() before you change it, or pass a copy to forward()");
    }
  }

 private:
  struct Saved {
    std::string name;
    at::Tensor tensor;
    uint32_t version;
  };

  static uint32_t version_of(const at::Tensor& tensor) { return tensor.is_inference() ? 0 : static_cast<uint32_t>(tensor._version()); }

  std::vector<Saved> saved_;
};

}  // namespace tw::layer_parallel
