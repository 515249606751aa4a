// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw::graph {

/// Other numbers in a module's tensors, as a step of training leaves them, until the end of its life: up to a quarter more or less, and small ones in
/// place of zeros. Signs, infinities and whole numbers stay, and so do tensors whose owner refuses a change in place, such as sharded parameters. To
/// autograd the tensors have changed, there and back.
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
