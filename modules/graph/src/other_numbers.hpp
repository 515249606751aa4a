// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw::graph {

/// Changes the values of a module's tensors for its own lifetime, as a training step would: by up to a quarter, and zeros to small numbers. Keeps
/// signs, infinities, integers, and tensors whose owner refuses in-place changes, such as sharded parameters. Autograd sees both changes.
class OtherNumbers {
 public:
  explicit OtherNumbers(const std::vector<NamedTensor>& tensors);
  ~OtherNumbers();
  OtherNumbers(const OtherNumbers&) = delete;
  OtherNumbers& operator=(const OtherNumbers&) = delete;

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> before_;
};

}  // namespace tw::graph
