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

/// Detects changes to a wrapped model. LibTorch does not report them, and replicas would silently diverge. Compares what is trained at a step with
/// what was wrapped. Local; takes a fraction of a microsecond per tensor.
class WrappedModelCheck {
 public:
  /// @param strategy for messages. @param tensors all of the model, trained or not.
  WrappedModelCheck(std::string strategy, std::vector<NamedTensor> tensors);
  /// Also detects parameters added later, if a shared_ptr owns `module`, as a ModuleHolder's does.
  WrappedModelCheck(std::string strategy, const torch::nn::Module& module);
  /// The same for a module that `comm` replicates; see tensors_of_replica().
  WrappedModelCheck(std::string strategy, const Communicator& comm, const torch::nn::Module& module);

  /// Each once.
  const std::vector<NamedTensor>& tensors() const noexcept { return tensors_; }

  /// Tensors frozen later are ignored. @throws ContractError naming the tensor if a trained one changed dtype, shape or device, if a frozen one is
  /// trained now, or if the module has a new parameter.
  void expect_unchanged() const;
  /// The same for one of tensors().
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
