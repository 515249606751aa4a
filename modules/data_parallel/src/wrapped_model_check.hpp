// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tw/data_parallel/fwd.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// What a strategy was made for. LibTorch lets a model change behind it, and of what it does not know the replicas would drift apart without a word.
/// So what is trained at a step is compared with what was wrapped_model_check. Local; takes a fraction of a microsecond a tensor.
class WrappedModelCheck {
 public:
  /// @param strategy for messages. @param tensors all that there are, trained or not.
  WrappedModelCheck(std::string strategy, std::vector<NamedTensor> tensors);
  /// Looks for parameters that come later, too, while a shared_ptr owns `module`, as a holder's does.
  WrappedModelCheck(std::string strategy, const torch::nn::Module& module);
  /// The same where `comm` replicates it; see tensors_of_replica().
  WrappedModelCheck(std::string strategy, const Communicator& comm, const torch::nn::Module& module);

  /// Each once.
  const std::vector<NamedTensor>& tensors() const noexcept { return tensors_; }

  /// What is frozen later takes no part, as always. @throws ContractError, naming the tensor, where the dtype, shape or device of a trained one
  /// changed, where one is trained that was frozen, and where the module has a parameter that it had not.
  void expect_unchanged() const;
  /// The same for one of tensors() alone.
  void expect_unchanged(size_t index) const;
  /// "fc.weight `what`, unlike when DataParallel was made: ..."
  std::string message(const std::string& name, const std::string& what) const;

 private:
  struct Facts {
    TensorSpec spec;
    c10::Device device;
    bool trained;
  };
  void expect_same_parameters() const;

  std::string strategy_;
  std::vector<NamedTensor> tensors_;
  std::vector<Facts> facts_;  // by tensor
  std::weak_ptr<const torch::nn::Module> module_;
  std::vector<at::Tensor> parameters_;  // of the module, in its order
};

}  // namespace tw
